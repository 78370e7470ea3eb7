# For the tests of scripts: run something, compare status and text, count what differs. Source it, end with `finish`.
failures=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# expect STATUS PATTERN COMMAND...: the exit status, and an extended regular expression its output holds ('' = any).
expect() {
  local status=$1 pattern=$2 output got=0
  shift 2
  output=$("$@" 2>&1) || got=$?
  if [ "$got" -ne "$status" ] || ! grep -qE -- "$pattern" <<<"$output"; then
    failures=$((failures + 1))
    printf 'FAILED: %s\n  expected status %s and /%s/, got status %s and:\n%s\n' "$*" "$status" "$pattern" "$got" "$output"
  fi
}

finish() {
  [ "$failures" -eq 0 ] && echo "all as expected"
  exit $((failures > 0))
}
