package emulator

import (
	"encoding/json"
	"net/http"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
)

// resumeDeployments goes on with the deployments that were under way. Their parameters are those
// that they began with.
func (s *deployments) resumeDeployments() {
	var under []*deploymentRun
	for _, r := range s.kernel.store.list(typeDeployment, "") {
		var state deploymentState
		if err := json.Unmarshal([]byte(text(r.body, "run")), &state); err != nil {
			s.kernel.log.Error("a deployment cannot be read", "id", string(r.id), "error",
				err.Error())
			continue
		}
		run := s.newRun(state.Who, state.Correlation, state.Base)
		run.id, run.State, run.location = r.id, state, state.Location
		run.world.now = state.Started
		s.deployments[r.id.Key()] = run
		if run.active() && state.Parent == "" {
			under = append(under, run)
		}
	}
	for _, run := range under {
		f := run.reread()
		if f == nil {
			f = run.resume()
		}
		if f != nil {
			run.end(f)
			continue
		}
		run.step()
	}
}

// reread prepares a deployment from what is kept of it.
func (run *deploymentRun) reread() *failure {
	s := decodeSource(run.deployments.kernel.store.get(run.id))
	for raw, into := range map[*json.RawMessage]**armtemplate.Object{&s.Template: &run.template,
		&s.Parameters: &run.parameters} {
		doc, err := armtemplate.Parse("", *raw)
		o, is := doc.(*armtemplate.Object)
		if err != nil || !is {
			return fail(
				http.StatusInternalServerError,
				"InternalServerError",
				"The deployment could not be read again after a restart: %v.",
				err,
			)
		}
		*into = o
	}
	return run.prepare()
}

// resume waits again for what was under way, nested deployments included.
func (run *deploymentRun) resume() *failure {
	for _, s := range run.State.Steps {
		if s.Status != deploymentRunning {
			continue
		}
		if !s.ID.Is(typeDeployment) {
			run.wait(s, s.Until)
			continue
		}
		nested := run.deployments.deployments[s.ID.Key()]
		for _, r := range run.ready.Resources() {
			if nested == nil || !s.ID.Equal(arm.ID(r.ID)) {
				continue
			}
			nested.outer = run
			if f := run.nest(nested, r); f != nil {
				return f
			}
			if f := nested.resume(); f != nil {
				return f
			}
			nested.step()
		}
	}
	return nil
}

// resumeActivity leaves the end of a deployment's record to the deployment.
func (s *deployments) resumeActivity(r activityRecord) bool {
	if !strings.EqualFold(r.operation, typeDeployment+"/write") {
		return false
	}
	run := s.deployments[r.resource.Key()]
	if run.active() {
		run.activity = r
	}
	return run.active()
}

// deploymentSource is what a deployment is made of, as it is kept.
type deploymentSource struct {
	Template   json.RawMessage `json:"template"`
	Parameters json.RawMessage `json:"parameters"`
	template   any
}

// source keeps the parameters with their values: newGuid() and utcNow() are asked once.
func (run *deploymentRun) source() string {
	values := object{}
	all, err := run.ready.Parameters()
	if err == nil {
		for _, p := range all {
			values[p.Name] = object{"value": plainJSON(p.Value)}
		}
	}
	return string(
		encode(
			deploymentSource{Template: armtemplate.JSON(run.template), Parameters: encode(values)},
		),
	)
}

func decodeSource(r *resource) deploymentSource {
	var s deploymentSource
	_ = json.Unmarshal([]byte(text(r.body, "source")), &s) // written above
	s.template, _ = decodeObject(s.Template)
	return s
}
