# Shortcuts for the commands in CONTRIBUTING.md.
.PHONY: test test-kube

test:
	go test ./...

# The tests that need a real API server; the first time, .ci/kube builds it in 5 to 10 minutes.
test-kube:
	.ci/kube
	ROUTEKEEPER_NEED_KUBE=1 go test . ./internal/cli ./internal/clients ./internal/emulator/kubernetes
