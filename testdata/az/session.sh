# A part of the scripts here: it starts az, and logs in. The answer of each step goes to $OUT/<step>.json and the command to $OUT/commands,
# for the test that runs the script.
#
# In: HTTPS, TENANT, SUBSCRIPTION, CLIENT_ID, CLIENT_SECRET (of emulator.json), OUT (a folder), and in the environment
# REQUESTS_CA_BUNDLE=ca.pem, PYTHONPATH=shim, AZURE_CONFIG_DIR=<a folder of its own>, AZURE_CORE_COLLECT_TELEMETRY=no.

# The Azure CLI takes half a second to start, so one process of its Python runs all commands, where that can be found.
mkfifo "$OUT/ask" "$OUT/code"
python=$(sed -n '1s/^#! *//p' "$(command -v az)")
session=
if $python -c 'import azure.cli.core' 2>"$OUT/no-session"; then
  $python "$(dirname "$0")/session.py" "$OUT" &
  session=$!
  trap 'kill "$session" 2>"$OUT/no-session" || :' EXIT
else
  echo "each command starts az: $(tail -n 1 "$OUT/no-session")"
fi
run() { # a command of az, one of the session or one of its own
  [ "$session" ] || { az "$@"; return; }
  printf '%s\0' "$@" >"$OUT/ask"
  read -r code <"$OUT/code"
  cat "$OUT/said"
  return "$code"
}
call() {
  echo "az $*" >>"$OUT/commands"
  run "$@" --only-show-errors || { echo "failed: az $*" >&2; exit 1; }
}
said() { # FIELD STEP: a text in a step's answer
  sed -n "s/^ *\"$1\": \"\(.*\)\",*$/\1/p" "$OUT/$2.json"
}
step() {
  name=$1
  shift
  call "$@" --output json >"$OUT/$name.json"
}

# A cloud whose directory ends in /adfs is asked for no instance discovery. Microsoft Graph is the emulator, too.
step cloud-register cloud register --name local --cloud-config "{\"endpoints\": {
  \"resourceManager\": \"$HTTPS\", \"management\": \"$HTTPS\", \"activeDirectory\": \"$HTTPS/adfs\",
  \"activeDirectoryResourceId\": \"https://management.core.windows.net/\",
  \"activeDirectoryGraphResourceId\": \"https://graph.windows.net/\", \"microsoftGraphResourceId\": \"$HTTPS/\"}}"
step cloud-set cloud set --name local
step login login --service-principal --username "$CLIENT_ID" --password "$CLIENT_SECRET" --tenant "$TENANT"
