package deployments

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
)

// Package armtemplate evaluates a template. A separate call writes each of its resources, as a
// client would, in the name of the deployment's caller.
//
//	PUT ─► parse, Prepare ─► preflight ─► stored: Accepted ─► step ─► step … ─► Succeeded
//	       InvalidTemplate   InvalidTemplateDeployment          │               Failed
//	                         (roles, policies)                  └─ starts what has all it needs,
//	                                                               waits for its operation
//
// A nested deployment has its own document and its own run. When it ends, it reports the result to
// its parent.

const TypeDeployment = "Microsoft.Resources/deployments"

// deploymentPath adds the provider to the path of a deployment in a resource group: Azure takes it
// without.
func deploymentPath(path []string) []string {
	if len(path) > 5 && strings.EqualFold(path[2], "resourceGroups") &&
		strings.EqualFold(path[4], "deployments") {
		return slices.Concat(path[:4], []string{"providers", "Microsoft.Resources"}, path[4:])
	}
	return path
}

// deploymentCall answers for deployments of resource groups and of subscriptions. Reads of one, and
// lists, work as for any resource.
func (s *Deployments) deploymentCall(c *kernel.Call) (kernel.Reply, *kernel.Failure, bool) {
	at := -1
	for i := 0; i+2 < len(c.Path); i += 2 {
		if strings.EqualFold(c.Path[i], "providers") &&
			strings.EqualFold(c.Path[i+1]+"/"+c.Path[i+2], TypeDeployment) {
			at = i + 3
		}
	}
	if at < 0 || at != 5 && at != 7 || len(c.Path) <= at {
		return kernel.Reply{}, nil, false
	}
	id, err := arm.ParseID("/" + strings.Join(c.Path[:at+1], "/"))
	if err != nil {
		return kernel.Reply{}, nil, false
	}
	if group := id.Group(); group != "" && s.kernel.Store.Get(group) == nil {
		return kernel.Reply{}, s.kernel.Missing(group), true
	}
	verb := strings.ToLower(strings.Join(c.Path[at+1:], "/"))
	operation := strings.HasPrefix(verb, "operations/") ||
		strings.HasPrefix(verb, "operationstatuses/")
	r := s.kernel.Store.Get(id)
	creates := verb == "validate" || verb == "whatif" || verb == "" && c.Method == http.MethodPut
	if r == nil && !creates {
		if verb == "" && c.Method == http.MethodDelete {
			return kernel.Reply{Status: http.StatusNoContent}, nil, true
		}
		return kernel.Reply{}, kernel.Fail(http.StatusNotFound, "DeploymentNotFound",
			"Deployment '%s' could not be found.", id.Name()), true
	}
	answer, f := kernel.Reply{}, (*kernel.Failure)(nil)
	switch {
	case verb == "" && (c.Method == http.MethodGet || c.Method == http.MethodHead):
		return kernel.Reply{}, nil, false
	case verb == "" && c.Method == http.MethodPut:
		answer, f = s.putDeployment(c, id, r)
	case verb == "" && c.Method == http.MethodDelete:
		answer, f = s.deleteDeployment(c, r)
	case c.Method == http.MethodPost && verb == "validate":
		answer, f = s.validateDeployment(c, id)
	case c.Method == http.MethodPost && verb == "whatif":
		answer, f = s.whatIfCall(c, id)
	case c.Method == http.MethodPost && verb == "cancel":
		answer, f = s.cancelDeployment(r)
	case c.Method == http.MethodPost && verb == "exporttemplate":
		var template kernel.Object
		template, f = kernel.DecodeObject([]byte(kernel.Text(r.Body, "source")))
		answer = kernel.OK(kernel.Object{"template": template})
	case c.Method == http.MethodGet && verb == "operations":
		answer, f = s.kernel.PageObjects(c, s.Runs[id.Key()].operationDocuments())
	case c.Method == http.MethodGet && operation:
		answer, f = s.deploymentOperation(r, verb)
	default:
		f = kernel.Fail(http.StatusMethodNotAllowed, "MethodNotAllowed",
			"The method %s is not supported for %s.", c.Method, c.Key())
	}
	return answer, f, true
}

// deploymentOf reads the body of a call and prepares its template, or refuses it: with Azure's
// message, or with one of the emulator if it does not support the template.
func (s *Deployments) deploymentOf(c *kernel.Call, id arm.ID) (*deploymentRun, *kernel.Failure) {
	doc, err := armtemplate.Parse("", c.Body)
	sent, is := doc.(*armtemplate.Object)
	if err != nil || !is {
		return nil, kernel.Bad("InvalidRequestContent",
			"The request content was invalid and could not be deserialized: '%v'.", err)
	}
	properties := sent.Object("properties")
	if f := checkSupported(properties); f != nil {
		return nil, f
	}
	template := properties.Object("template")
	if template == nil {
		return nil, kernel.Bad("InvalidRequestContent",
			"The request content was invalid: the deployment has no template.")
	}
	location := sent.Text("location")
	if id.ResourceGroup() == "" && location == "" {
		return nil, kernel.Bad("LocationRequired", "The 'location' property is required for "+
			"deployment '%s' at subscription scope.", id.Name())
	}
	if wants := strings.ToLower(template.Text("$schema")); strings.Contains(wants,
		"subscriptiondeploymenttemplate") != (id.ResourceGroup() == "") {
		return nil, invalidTemplate("the template's $schema '%s' is not that of a deployment to %s",
			wants, map[bool]string{true: "a subscription",
				false: "a resource group"}[id.ResourceGroup() == ""])
	}
	run := s.newRun(deploymentState{Who: c.Who, Correlation: c.IDs[1], Base: c.Base,
		Location: location})
	run.id, run.asked, run.template = s.kernel.Spelled(id), properties, template
	if group := s.kernel.Store.Get(id.Group()); group != nil {
		run.id = arm.ID(
			strings.Replace(string(run.id), "/"+id.ResourceGroup()+"/", "/"+group.ID.Name()+"/", 1))
	}
	return run, run.prepare()
}

// checkSupported refuses deployments that are not emulated, so that nothing is ignored silently.
func checkSupported(properties *armtemplate.Object) *kernel.Failure {
	notHere := func(code, format string, args ...any) *kernel.Failure {
		return kernel.Fail(http.StatusNotImplemented, code,
			"The emulator does not support this: "+format, args...)
	}
	switch mode := properties.Text("mode"); {
	case properties == nil:
		return kernel.Bad("InvalidRequestContent",
			"The request content was invalid: the deployment has no properties.")
	case strings.EqualFold(mode, "Complete"):
		return notHere("CompleteModeNotSupported",
			"a deployment in Complete mode deletes what the template does not name. Deploy in "+
				"Incremental mode, and delete the rest yourself.")
	case !strings.EqualFold(mode, "Incremental"):
		return kernel.Bad("InvalidDeploymentMode",
			"The deployment mode '%s' is not valid. Specify 'Incremental' or 'Complete'.", mode)
	}
	if link := properties.Object("templateLink"); link != nil {
		return notHere("TemplateLinkNotSupported", "it downloads no linked template (%s%s%s). "+
			"Put the template into the properties as template.", link.Text("uri"),
			link.Text("relativePath"), link.Text("id"))
	}
	if properties.Object("parametersLink") != nil {
		return notHere("ParametersLinkNotSupported", "the parameters are linked, and the "+
			"emulator downloads nothing. Put them into the properties as parameters.")
	}
	if properties.Object("onErrorDeployment") != nil {
		return notHere("OnErrorDeploymentNotSupported",
			"a deployment that another one follows on an error.")
	}
	return nil
}

func invalidTemplate(format string, args ...any) *kernel.Failure {
	return kernel.Bad("InvalidTemplate", "Deployment template validation failed: '%s. Please see "+
		"https://aka.ms/arm-syntax for usage details.'.",
		strings.TrimSuffix(fmt.Sprintf(format, args...), "."))
}

// putDeployment starts a deployment. Errors that the template does not show appear when the
// resource is deployed.
func (s *Deployments) putDeployment(c *kernel.Call, id arm.ID, old *kernel.Resource) (kernel.Reply,
	*kernel.Failure) {
	if old != nil && s.Runs[id.Key()].active() {
		since := s.Runs[id.Key()].State.Started
		return kernel.Reply{}, kernel.Fail(http.StatusConflict, "DeploymentActive",
			"Unable to edit or replace deployment '%s': previous deployment from '%s' is still "+
				"active (expiration time is '%s'). Please see https://aka.ms/arm-deploy for "+
				"usage details.", id.Name(), since.UTC().Format("1/2/2006 3:04:05 PM"),
			since.UTC().AddDate(0, 0, 7).Format("1/2/2006 3:04:05 PM"))
	}
	run, f := s.deploymentOf(c, id)
	if f == nil {
		f = s.preflight(run)
	}
	if f != nil {
		s.kernel.Record(c, id, "write", f)
		return kernel.Reply{}, f
	}
	run.activity = s.kernel.RecordStart(c, run.id, "write")
	run.activity.Status, run.activity.SubStatus = kernel.ActivityAccepted, "Created"
	s.kernel.Note(run.activity)
	s.begin(run, c.Fault)
	answer := kernel.Reply{Status: http.StatusCreated, Header: map[string]string{
		"Azure-AsyncOperation": c.Base + "/" + strings.Join(c.Path,
			"/") + "/operationStatuses/" + run.State.Number + "?api-version=" + c.Version,
		"Retry-After": strconv.Itoa(s.kernel.RetryAfter()),
	}, Body: s.kernel.Render(s.kernel.Store.Get(run.id), c.Version)}
	run.step()
	if !run.active() { // nothing takes time, so a client need not wait for it
		delete(answer.Header, "Retry-After")
	}
	return answer, nil
}

// deploymentOperation answers a poll of a deployment, or a GET of one of its operations.
func (s *Deployments) deploymentOperation(r *kernel.Resource, verb string) (kernel.Reply,
	*kernel.Failure) {
	run := s.Runs[r.ID.Key()]
	kind, name, _ := strings.Cut(verb, "/")
	if kind == "operations" {
		for _, doc := range run.operationDocuments() {
			if strings.EqualFold(kernel.Text(doc, "operationId"), name) {
				return kernel.OK(doc), nil
			}
		}
		return kernel.Reply{}, kernel.Fail(http.StatusNotFound, "DeploymentOperationNotFound",
			"Deployment operation '%s' could not be found.", name)
	}
	doc := kernel.Object{"status": run.State.Status}
	switch run.State.Status {
	case "Failed":
		doc["error"] = r.Properties()["error"]
	case Running, Accepted:
		answer := kernel.OK(doc)
		answer.Header = map[string]string{"Retry-After": strconv.Itoa(s.kernel.RetryAfter())}
		return answer, nil
	}
	return kernel.OK(doc), nil
}

// cancelDeployment stops a deployment: running operations continue, and nothing more is started.
func (s *Deployments) cancelDeployment(r *kernel.Resource) (kernel.Reply, *kernel.Failure) {
	run := s.Runs[r.ID.Key()]
	if !run.active() {
		return kernel.Reply{}, kernel.Fail(http.StatusConflict, "DeploymentCannotBeCancelled",
			"The deployment '%s' cannot be cancelled because it is in state '%s'.", r.ID.Name(),
			run.State.Status)
	}
	run.cancel()
	return kernel.Reply{Status: http.StatusNoContent}, nil
}

// deleteDeployment removes the document of a deployment, but not its resources.
func (s *Deployments) deleteDeployment(c *kernel.Call, r *kernel.Resource) (kernel.Reply,
	*kernel.Failure) {
	if s.Runs[r.ID.Key()].active() {
		return kernel.Reply{}, kernel.Fail(http.StatusConflict, "DeploymentActive",
			"Unable to delete deployment '%s': it is still active. Cancel it first.", r.ID.Name())
	}
	s.kernel.Store.Remove(r.ID)
	delete(s.Runs, r.ID.Key())
	s.kernel.Record(c, r.ID, "delete", nil)
	answer := s.kernel.AcceptedUntil(c,
		&kernel.Operation{Ends: time.Now().Add(s.kernel.OperationTime(c))})
	delete(answer.Header, "Azure-AsyncOperation")
	return answer, nil
}

// validateDeployment checks a deployment without creating anything.
func (s *Deployments) validateDeployment(c *kernel.Call, id arm.ID) (kernel.Reply,
	*kernel.Failure) {
	run, f := s.deploymentOf(c, id)
	if f == nil {
		f = s.preflight(run)
	}
	if f != nil {
		return kernel.Reply{}, f
	}
	properties := run.properties()
	properties["provisioningState"], properties["timestamp"], properties["duration"] =
		"Succeeded", "0001-01-01T00:00:00Z", "PT0S"
	validated := []any{}
	for _, p := range run.planned() {
		validated = append(validated, kernel.Object{"id": p.ID})
	}
	properties["validatedResources"] = validated
	return kernel.OK(kernel.Object{"id": string(run.id), "name": run.id.Name(),
		"type": TypeDeployment, "properties": properties}), nil
}

// showDeployment leaves out the emulator's internal fields.
func (s *Deployments) showDeployment(r *kernel.Resource, doc kernel.Object, _ string) {
	delete(doc, "source")
	delete(doc, "run")
	if run := s.Runs[r.ID.Key()]; run != nil {
		kernel.ObjectAt(doc, "properties")["provisioningState"] = run.State.Status
	}
}

// deploymentRemoved drops a run whose document was deleted, for example with its resource group.
func (s *Deployments) deploymentRemoved(r *kernel.Resource) { delete(s.Runs, r.ID.Key()) }
