// SPDX-License-Identifier: MIT
/** Keeps 150 MB, makes garbage, and rests: with ZGC before Java 21 each page of the heap is mapped several times. */
public final class Heap {
    public static void main(String[] arguments) throws InterruptedException {
        byte[][] kept = new byte[150][];
        long sum = 0;
        for (int round = 0; round < 12; round++) {
            for (int i = 0; i < kept.length; i++) {
                if (round == 0 || i % 12 == round)
                    kept[i] = new byte[1_000_000];
                sum += new byte[100_000].length;
            }
        }
        Thread.sleep(500); // the heap stays as large as it is
        System.exit(sum > 0 && kept[149].length == 1_000_000 ? 0 : 1);
    }
}
