package diagnose

import (
	"os"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/finding/pastetest"
)

// TestMain runs the tests. Then it pastes the commands of each finding that they made, made again
// with hostile names.
func TestMain(m *testing.M) { os.Exit(pastetest.Main(m.Run)) }

// TestPastedPromotion makes the command that promotes a target that is only observed.
func TestPastedPromotion(t *testing.T) {
	w := healthy(t).routes(gwTable, podRoute(0), podRoute(1))
	w.c.Configs[0].Spec.Targets[0].Policy = v1alpha1.PolicyObserve
	w.finds(finding.TargetDrift)
}
