package deployments

import (
	"encoding/json"
	"net/http"
	"strings"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// resumeDeployments reads the deployments. One that was running has failed: what it made stays, and
// nothing more is started.
func (s *Deployments) resumeDeployments() {
	for _, r := range s.kernel.Store.List(TypeDeployment, "") {
		var state deploymentState
		if err := json.Unmarshal([]byte(kernel.Text(r.Body, "run")), &state); err != nil {
			s.kernel.Log.Error("a deployment cannot be read", "id", string(r.ID), "error",
				err.Error())
			continue
		}
		run := s.newRun(state)
		run.id = r.ID
		s.Runs[r.ID.Key()] = run
		if !run.active() {
			continue
		}
		for _, step := range run.State.Steps {
			if step.Status == Running {
				run.ended(step, 0, interrupted())
			}
		}
		run.end(interrupted())
	}
}

func interrupted() *kernel.Failure {
	return kernel.Fail(http.StatusConflict, "DeploymentInterrupted", "The emulator was restarted "+
		"while the deployment ran. What it has made stays; deploy again.")
}

// resumeActivity ends the record of a deployment that was running.
func (s *Deployments) resumeActivity(r kernel.ActivityRecord) bool {
	if !strings.EqualFold(r.Operation, TypeDeployment+"/write") {
		return false
	}
	s.kernel.Note(r.Ended(interrupted()))
	return true
}
