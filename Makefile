# Shortcuts for the commands in CONTRIBUTING.md.
.PHONY: days quick test test-kube weight

# The checks of .ci/run for what changed, in less than 30 s.
quick:
	.ci/quick

test:
	go test ./...

# The tests that need a real API server; the first time, .ci/kube builds it in 5 to 10 minutes.
test-kube:
	.ci/kube
	ROUTEKEEPER_NEED_KUBE=1 go test . ./internal/cli ./internal/emulator/kubernetes
	ROUTEKEEPER_NEED_KUBE=1 go -C internal/clients test .

# Play other simulated days each time. It takes some minutes; a day that fails prints how to repeat it.
days:
	ROUTEKEEPER_SEED=random ROUTEKEEPER_DAYS=15 go test -count=1 -timeout 60m ./internal/keeper ./internal/serve \
	  -run '^Test(Everything|Storm|NodesStorm|TwoKeepersInAStorm|KeepersDiffer|Day)$$'

# What it costs to build, run and change the program: a cold build, sizes, lines, the slowest tests.
weight:
	go run ./.ci/weight
	go test -count=1 -json ./... | go run ./.ci/slowest
