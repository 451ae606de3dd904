package deployments

import (
	"encoding/json"
	"net/http"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
)

// resumeDeployments continues the deployments that were running, with the parameters that they
// started with.
func (s *Deployments) resumeDeployments() {
	var under []*deploymentRun
	for _, r := range s.kernel.Store.List(TypeDeployment, "") {
		var state deploymentState
		if err := json.Unmarshal([]byte(kernel.Text(r.Body, "run")), &state); err != nil {
			s.kernel.Log.Error("a deployment cannot be read", "id", string(r.ID), "error",
				err.Error())
			continue
		}
		run := s.newRun(state)
		run.id, run.world.now = r.ID, state.Started
		s.Deployments[r.ID.Key()] = run
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

// reread prepares a deployment from its saved form.
func (run *deploymentRun) reread() *kernel.Failure {
	s := decodeSource(run.deployments.kernel.Store.Get(run.id))
	for raw, into := range map[*json.RawMessage]**armtemplate.Object{&s.Template: &run.template,
		&s.Parameters: &run.parameters} {
		doc, err := armtemplate.Parse("", *raw)
		o, is := doc.(*armtemplate.Object)
		if err != nil || !is {
			return kernel.Fail(http.StatusInternalServerError, "InternalServerError",
				"The deployment could not be read again after a restart: %v.", err)
		}
		*into = o
	}
	return run.prepare()
}

// resume waits again for the running operations, nested deployments included.
func (run *deploymentRun) resume() *kernel.Failure {
	for _, s := range run.State.Steps {
		if s.Status != Running {
			continue
		}
		if !s.ID.Is(TypeDeployment) {
			run.wait(s, s.Until)
			continue
		}
		nested := run.deployments.Deployments[s.ID.Key()]
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
func (s *Deployments) resumeActivity(r kernel.ActivityRecord) bool {
	if !strings.EqualFold(r.Operation, TypeDeployment+"/write") {
		return false
	}
	run := s.Deployments[r.Resource.Key()]
	if run.active() {
		run.activity = r
	}
	return run.active()
}

// deploymentSource is the saved form of a deployment's template and parameters.
type deploymentSource struct {
	Template   json.RawMessage `json:"template"`
	Parameters json.RawMessage `json:"parameters"`
	template   any
}

// source keeps the parameters with their values: newGuid() and utcNow() are evaluated once.
func (run *deploymentRun) source() string {
	values := kernel.Object{}
	all, err := run.ready.Parameters()
	if err == nil {
		for _, p := range all {
			values[p.Name] = kernel.Object{"value": plainJSON(p.Value)}
		}
	}
	return string(
		kernel.Encode(
			deploymentSource{Template: armtemplate.JSON(run.template),
				Parameters: kernel.Encode(values)},
		),
	)
}

func decodeSource(r *kernel.Resource) deploymentSource {
	var s deploymentSource
	_ = json.Unmarshal([]byte(kernel.Text(r.Body, "source")), &s) // written above
	s.template, _ = kernel.DecodeObject(s.Template)
	return s
}
