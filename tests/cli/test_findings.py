# SPDX-License-Identifier: MIT
"""Evidence of findings: docs/findings.md and the schema describe the keys that the code emits."""
import json
import re

from cli_helpers import ROOT

ADDS = re.compile(r"\b(\w*(?:finding_evidence|finding_text|share_evidence))\(\s*(\w+|struct finding \*f),\s*([^,]+),")
BY_SINK = {"devices", "from_s", "to_s"}  # src/sink/json/json_summary.c


def emitted():
    """Keys in the calls of all rules. All are literals, or parameters of a helper."""
    keys = set()
    for path in sorted((ROOT / "src" / "findings").glob("*.c")):
        for _, _, key in ADDS.findall(path.read_text(encoding="utf-8")):
            assert key in ("key", "const char *key") or re.fullmatch(r'"[a-z_]+"', key), f"{path.name}: {key}"
            keys |= set(re.findall(r'"(\w+)"', key))
    assert {"gpu_uuid", "enough_gpu_bytes", "sm_active_ratio", "peak_bytes"} <= keys
    return keys | BY_SINK


def test_each_key_is_documented():
    text = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8").partition("## Evidence")[2].partition("\n## ")[0]
    said = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.M))
    schema = json.loads((ROOT / "docs" / "summary.schema.json").read_text(encoding="utf-8"))
    evidence = schema["properties"]["findings"]["items"]["properties"]["evidence"]
    assert set(said) == emitted()
    assert said == {key: of["description"] for key, of in evidence["properties"].items()}
    assert evidence["additionalProperties"] is False
