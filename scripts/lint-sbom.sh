#!/usr/bin/env bash
# Holds a bill of materials against the published JSON schema of CycloneDX. Installs the library that has the schema
# below target/, once.
#
# usage: scripts/lint-sbom.sh FILE
#
# Exit status: 0 it is valid; 1 it is not, or the library can't be had.
set -eu
[ $# = 1 ] || {
    sed -n '5s/^# //p' "$0" >&2
    exit 1
}
file=$(realpath "$1")
cd "$(dirname "$0")/.."

tools=${CARGO_TARGET_DIR:-target}/tools/sbom-lint
library="cyclonedx-python-lib[json-validation]==11.12.0"
stamp=$tools/${library//[^a-z0-9.=-]/}
if [ ! -e "$stamp" ]; then
    rm -rf "$tools"
    python3 -m venv "$tools" && "$tools/bin/pip" install --quiet --disable-pip-version-check "$library" || {
        echo "lint-sbom.sh: the library can't be installed: is python3-venv there, and PyPI reachable?" >&2
        exit 1
    }
    touch "$stamp"
fi
"$tools/bin/python" - "$file" <<'PYTHON'
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read())
if error:
    sys.exit(f"lint-sbom.sh: {sys.argv[1]}: {error.data.message} at {list(error.data.absolute_path)}")
PYTHON
