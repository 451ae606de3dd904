package deployments

import (
	"fmt"
	"net/http"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
)

// plannedResource is a resource as far as it is known before the deployment.
type plannedResource struct {
	*armtemplate.Resource
	ID   arm.ID
	Body *armtemplate.Object
	// Hidden is the reason why the content of a nested deployment is not known yet, "" if it is.
	Hidden string
}

// planned returns all resources of a deployment, followed by those of nested ones.
func (run *deploymentRun) planned() []plannedResource {
	if run.plan == nil {
		run.plan = run.plannedIn(run.ready)
	}
	return run.plan
}

func (run *deploymentRun) plannedIn(ready *armtemplate.Deployment) []plannedResource {
	var out, below []plannedResource
	for _, r := range ready.Resources() {
		p := plannedResource{Resource: r, ID: run.kernel.Spelled(arm.ID(r.ID))}
		nested, err := ready.Nested(r, true)
		if err != nil {
			p.Hidden = err.Error()
		} else if nested != nil {
			below = append(below, run.plannedIn(nested)...)
		}
		if p.Body, err = ready.Planned(r); err != nil {
			p.Body, p.Hidden = &armtemplate.Object{}, err.Error()
		}
		out = append(out, p)
	}
	return append(out, below...)
}

// preflight refuses a deployment if Azure would refuse a part of it: for a missing group, the
// caller's roles, or a policy.
func (s *Deployments) preflight(run *deploymentRun) *kernel.Failure {
	var unauthorized []string
	details := []any{}
	makes := map[string]bool{}
	for _, p := range run.planned() {
		makes[p.ID.Key()] = true
	}
	for _, p := range run.planned() {
		if p.ID.Is(TypeDeployment) {
			if f := checkSupported(p.Body.Object("properties")); f != nil {
				return f
			}
			if link := p.Source.Object("properties"); link.Object("template") == nil {
				return invalidTemplate("the nested deployment '%s' has no template", p.ID.Name())
			}
		}
		if f := knownOptions(p.Source.Object("@options")); f != nil {
			return f
		}
		if group := p.ID.Group(); group != "" && !p.ID.Is(arm.TypeResourceGroup) &&
			s.kernel.Store.Get(group) == nil && !makes[group.Key()] {
			return run.kernel.Missing(group)
		}
		who := run.State.Who
		action := s.kernel.OperationOn(p.ID) + "/write"
		if !s.authorization.Allowed(who, action, p.ID) {
			unauthorized = append(unauthorized, fmt.Sprintf("Authorization failed for template "+
				"resource '%s' of type '%s'. The client '%s' with object id '%s' does not "+
				"have permission to perform action '%s' at scope '%s'.", p.Name, p.Type,
				who.ClientID, who.ObjectID, action, p.ID))
		}
		body, f := kernel.DecodeObject(resourceBody(p.Body))
		if f != nil || holdsExpression(body) { // its policies are checked when it is deployed
			continue
		}
		if f := s.authorization.CheckPolicies(p.ID, body); f != nil {
			details = append(details,
				kernel.Object{"code": f.Code, "target": p.Name, "message": f.Message})
		}
	}
	switch {
	case len(unauthorized) == 1:
		return kernel.Bad("InvalidTemplateDeployment",
			"The template deployment failed with error: '%s'.", unauthorized[0])
	case len(unauthorized) > 1:
		return kernel.Bad("InvalidTemplateDeployment",
			"Deployment failed with multiple errors: '%s'", strings.Join(unauthorized, ":"))
	case len(details) > 0:
		f := kernel.Bad("InvalidTemplateDeployment", "The template deployment failed because of "+
			"policy violation. Please see details for more information.")
		f.Details = details
		return f
	}
	return nil
}

// knownOptions refuses options of a template's resource that are not emulated.
func knownOptions(options *armtemplate.Object) *kernel.Failure {
	if options == nil {
		return nil
	}
	for _, m := range options.Members {
		if !strings.EqualFold(m.Name, "onlyIfNotExists") {
			return kernel.Fail(http.StatusNotImplemented, "ResourceOptionNotSupported",
				"The emulator does not support this: the option %s of a resource.", m.Name)
		}
	}
	return nil
}

// holdsExpression reports whether a body contains an unevaluated expression.
func holdsExpression(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.HasPrefix(v, "[") && strings.HasSuffix(v, "]")
	case []any:
		for _, item := range v {
			if holdsExpression(item) {
				return true
			}
		}
	case kernel.Object:
		for _, item := range v {
			if holdsExpression(item) {
				return true
			}
		}
	}
	return false
}

// startNested starts a nested deployment. It needs the same rights as any deployment.
func (run *deploymentRun) startNested(s *step) {
	nested := run.newRun(deploymentState{Who: run.State.Who,
		Correlation: run.State.Correlation, Base: run.State.Base})
	nested.id, nested.parent = s.ID, run
	f := run.prepareNested(nested, s.of)
	if f == nil {
		f = run.checkCaller(s.ID)
	}
	if f == nil {
		f = checkSupported(s.of.Body.Object("properties"))
	}
	if old := run.Runs[s.ID.Key()]; f == nil && old.active() {
		f = kernel.Fail(http.StatusConflict, "DeploymentActive", "Unable to edit or replace "+
			"deployment '%s': a previous deployment is still active.", s.ID.Name())
	}
	if f == nil {
		f = run.preflight(nested)
	}
	if f != nil {
		run.ended(s, f.Status, f)
		return
	}
	run.begin(nested, nil)
	nested.step()
}

// prepareNested gives a nested deployment its evaluated template.
func (run *deploymentRun) prepareNested(nested *deploymentRun,
	r *armtemplate.Resource) *kernel.Failure {
	if group := nested.id.Group(); group != "" && run.kernel.Store.Get(group) == nil {
		return run.kernel.Missing(group)
	}
	ready, err := run.ready.Nested(r, false)
	if err != nil {
		return run.unprocessable(r, err)
	}
	nested.ready, nested.State.Location = ready, r.Body.Text("location")
	nested.template = r.Source.Object("properties").Object("template")
	return nil
}

// checkCaller checks that the caller may write a deployment.
func (run *deploymentRun) checkCaller(id arm.ID) *kernel.Failure {
	return run.authorization.Admit(run.callOf(http.MethodPut, id, resourcesVersion, []byte("{}")))
}
