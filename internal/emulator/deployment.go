package emulator

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
)

// Deployments: a template is evaluated by package armtemplate, and each of its resources is written
// by a call as its client would make it, in the name of who deploys.
//
//	PUT ─► parse, Prepare ─► preflight ─► stored: Accepted ─► step ─► step … ─► Succeeded
//	       InvalidTemplate   InvalidTemplateDeployment          │               Failed
//	                         (roles, policies)                  └─ starts what has all it needs,
//	                                                               waits for its operation
//
// A nested deployment is a document and a run of its own, which tells the one around it how it
// ended.

const typeDeployment = "Microsoft.Resources/deployments"

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
// lists, are those of any resource.
func (s *deployments) deploymentCall(c *call) (reply, *failure, bool) {
	at := -1
	for i := 0; i+2 < len(c.path); i += 2 {
		if strings.EqualFold(c.path[i], "providers") &&
			strings.EqualFold(c.path[i+1]+"/"+c.path[i+2], typeDeployment) {
			at = i + 3
		}
	}
	if at < 0 || at != 5 && at != 7 || len(c.path) <= at {
		return reply{}, nil, false
	}
	id, err := arm.ParseID("/" + strings.Join(c.path[:at+1], "/"))
	if err != nil {
		return reply{}, nil, false
	}
	if group := id.Group(); group != "" && s.kernel.store.get(group) == nil {
		return reply{}, s.kernel.missing(group), true
	}
	verb := strings.ToLower(strings.Join(c.path[at+1:], "/"))
	operation := strings.HasPrefix(verb, "operations/") ||
		strings.HasPrefix(verb, "operationstatuses/")
	r := s.kernel.store.get(id)
	creates := verb == "validate" || verb == "whatif" || verb == "" && c.method == http.MethodPut
	if r == nil && !creates {
		if verb == "" && c.method == http.MethodDelete {
			return reply{status: http.StatusNoContent}, nil, true
		}
		return reply{}, deploymentNotFound(id), true
	}
	answer, f := reply{}, (*failure)(nil)
	switch {
	case verb == "" && (c.method == http.MethodGet || c.method == http.MethodHead):
		return reply{}, nil, false
	case verb == "" && c.method == http.MethodPut:
		answer, f = s.putDeployment(c, id, r)
	case verb == "" && c.method == http.MethodDelete:
		answer, f = s.deleteDeployment(c, r)
	case c.method == http.MethodPost && verb == "validate":
		answer, f = s.validateDeployment(c, id)
	case c.method == http.MethodPost && verb == "whatif":
		answer, f = s.whatIfCall(c, id)
	case c.method == http.MethodPost && verb == "cancel":
		answer, f = s.cancelDeployment(c, r)
	case c.method == http.MethodPost && verb == "exporttemplate":
		answer = ok(object{"template": decodeSource(r).template})
	case c.method == http.MethodGet && verb == "operations":
		answer, f = s.kernel.pageObjects(c, s.deployments[id.Key()].operationDocuments())
	case c.method == http.MethodGet && operation:
		answer, f = s.deploymentOperation(c, r, verb)
	default:
		f = fail(
			http.StatusMethodNotAllowed,
			"MethodNotAllowed",
			"The method %s is not supported for %s.",
			c.method,
			c.key(),
		)
	}
	return answer, f, true
}

func deploymentNotFound(id arm.ID) *failure {
	return fail(
		http.StatusNotFound,
		"DeploymentNotFound",
		"Deployment '%s' could not be found.",
		id.Name(),
	)
}

// deploymentOf reads the body of a call and prepares its template, or refuses it in Azure's words,
// or in our own where Azure would do what the emulator cannot.
func (s *deployments) deploymentOf(c *call, id arm.ID) (*deploymentRun, *failure) {
	doc, err := armtemplate.Parse("", c.body)
	sent, is := doc.(*armtemplate.Object)
	if err != nil || !is {
		return nil, fail(
			http.StatusBadRequest,
			"InvalidRequestContent",
			"The request content was invalid and could not be deserialized: '%v'.",
			err,
		)
	}
	properties := sent.Object("properties")
	if c.unlinked != nil {
		return nil, c.unlinked
	}
	if f := onlyInline(properties); f != nil {
		return nil, f
	}
	template := properties.Object("template")
	if template == nil {
		return nil, fail(
			http.StatusBadRequest,
			"InvalidRequestContent",
			"The request content was invalid: the deployment has no template.",
		)
	}
	location := sent.Text("location")
	if id.ResourceGroup() == "" && location == "" {
		return nil, fail(
			http.StatusBadRequest,
			"LocationRequired",
			"The 'location' property is required for deployment '%s' at subscription scope.",
			id.Name(),
		)
	}
	if wants := strings.ToLower(template.Text("$schema")); strings.Contains(
		wants,
		"subscriptiondeploymenttemplate",
	) != (id.ResourceGroup() == "") {
		return nil, invalidTemplate(
			"the template's $schema '%s' is not that of a deployment to %s",
			wants,
			map[bool]string{true: "a subscription",
				false: "a resource group"}[id.ResourceGroup() == ""],
		)
	}
	run := s.newRun(c.who, c.ids[1], c.base)
	run.id, run.template, run.location = s.kernel.spelled(id), template, location
	run.parameters = properties.Object("parameters")
	if group := s.kernel.store.get(id.Group()); group != nil {
		run.id = arm.ID(
			strings.Replace(string(run.id), "/"+id.ResourceGroup()+"/", "/"+group.id.Name()+"/", 1),
		)
	}
	return run, run.prepare()
}

// onlyInline refuses what is not done here: nothing of it is left out in silence.
func onlyInline(properties *armtemplate.Object) *failure {
	notHere := func(code, format string, args ...any) *failure {
		return fail(
			http.StatusNotImplemented,
			code,
			"This local Azure does not do that: "+format,
			args...)
	}
	switch mode := properties.Text("mode"); {
	case properties == nil:
		return fail(
			http.StatusBadRequest,
			"InvalidRequestContent",
			"The request content was invalid: the deployment has no properties.",
		)
	case strings.EqualFold(mode, "Complete"):
		return notHere(
			"CompleteModeNotSupported",
			"a deployment in Complete mode deletes what the template does not name. Deploy in "+
				"Incremental mode, and delete the rest yourself.",
		)
	case !strings.EqualFold(mode, "Incremental"):
		return fail(
			http.StatusBadRequest,
			"InvalidDeploymentMode",
			"The deployment mode '%s' is not valid. Specify 'Incremental' or 'Complete'.",
			mode,
		)
	}
	if link := properties.Object("templateLink"); link != nil {
		return notHere(
			"TemplateLinkNotSupported",
			"it does not know where the linked template (%s%s) lies before it deploys. Give the "+
				"address itself, or put the template into the properties as template.",
			link.Text("uri"),
			link.Text("id"),
		)
	}
	if properties.Object("parametersLink") != nil {
		return notHere(
			"ParametersLinkNotSupported",
			"the parameters are linked, and nothing is downloaded. Put them into the properties "+
				"as parameters.",
		)
	}
	if properties.Object("onErrorDeployment") != nil {
		return notHere(
			"OnErrorDeploymentNotSupported",
			"a deployment that another one follows on an error.",
		)
	}
	return nil
}

func invalidTemplate(format string, args ...any) *failure {
	return fail(
		http.StatusBadRequest,
		"InvalidTemplate",
		"Deployment template validation failed: '%s. Please see https://aka.ms/arm-syntax for "+
			"usage details.'.",
		strings.TrimSuffix(fmt.Sprintf(format, args...), "."),
	)
}

// putDeployment begins a deployment. What its template does not show is seen when it comes to it.
func (s *deployments) putDeployment(c *call, id arm.ID, old *resource) (reply, *failure) {
	if old != nil && s.deployments[id.Key()].active() {
		since := s.deployments[id.Key()].State.Started
		return reply{}, fail(
			http.StatusConflict,
			"DeploymentActive",
			"Unable to edit or replace deployment '%s': previous deployment from '%s' is still "+
				"active (expiration time is '%s'). Please see https://aka.ms/arm-deploy for "+
				"usage details.",
			id.Name(),
			since.UTC().Format("1/2/2006 3:04:05 PM"),
			since.UTC().AddDate(0, 0, 7).Format("1/2/2006 3:04:05 PM"),
		)
	}
	run, f := s.deploymentOf(c, id)
	if f == nil {
		f = s.preflight(run)
	}
	if f != nil {
		s.kernel.record(c, id, "write", f)
		return reply{}, f
	}
	run.activity = s.kernel.recordStart(c, run.id, "write")
	run.activity.status, run.activity.subStatus = activityAccepted, "Created"
	s.kernel.note(run.activity)
	s.begin(run, c.fault)
	answer := reply{status: http.StatusCreated, header: map[string]string{
		"Azure-AsyncOperation": c.base + "/" + strings.Join(
			c.path,
			"/",
		) + "/operationStatuses/" + run.State.Number + "?api-version=" + c.version,
		"Retry-After": strconv.Itoa(s.kernel.retryAfter()),
	}, body: s.kernel.render(s.kernel.store.get(run.id), c.version)}
	run.step()
	return answer, nil
}

// deploymentOperation answers a poll, or for one operation.
func (s *deployments) deploymentOperation(c *call, r *resource, verb string) (reply, *failure) {
	run := s.deployments[r.id.Key()]
	kind, name, _ := strings.Cut(verb, "/")
	if kind == "operations" {
		for _, doc := range run.operationDocuments() {
			if strings.EqualFold(text(doc, "operationId"), name) {
				return ok(doc), nil
			}
		}
		return reply{}, fail(
			http.StatusNotFound,
			"DeploymentOperationNotFound",
			"Deployment operation '%s' could not be found.",
			name,
		)
	}
	doc := object{"status": run.State.Status}
	switch run.State.Status {
	case "Failed":
		doc["error"] = objectAt(r.body, "properties")["error"]
	case deploymentRunning, deploymentAccepted:
		answer := ok(doc)
		answer.header = map[string]string{"Retry-After": strconv.Itoa(s.kernel.retryAfter())}
		return answer, nil
	}
	return ok(doc), nil
}

// cancelDeployment stops a deployment: what is under way goes on, and nothing more is started.
func (s *deployments) cancelDeployment(c *call, r *resource) (reply, *failure) {
	run := s.deployments[r.id.Key()]
	if !run.active() {
		return reply{}, fail(
			http.StatusConflict,
			"DeploymentCannotBeCancelled",
			"The deployment '%s' cannot be cancelled because it is in state '%s'.",
			r.id.Name(),
			run.State.Status,
		)
	}
	run.cancel()
	return reply{status: http.StatusNoContent}, nil
}

// deleteDeployment removes the document of a deployment, and not what it has made.
func (s *deployments) deleteDeployment(c *call, r *resource) (reply, *failure) {
	if s.deployments[r.id.Key()].active() {
		return reply{}, fail(
			http.StatusConflict,
			"DeploymentActive",
			"Unable to delete deployment '%s': it is still active. Cancel it first.",
			r.id.Name(),
		)
	}
	s.kernel.store.remove(r.id)
	delete(s.deployments, r.id.Key())
	s.kernel.record(c, r.id, "delete", nil)
	answer := s.kernel.acceptedUntil(c, &operation{ends: time.Now().Add(s.kernel.operationTime(c))})
	delete(answer.header, "Azure-AsyncOperation")
	return answer, nil
}

// validateDeployment checks a deployment and makes nothing.
func (s *deployments) validateDeployment(c *call, id arm.ID) (reply, *failure) {
	run, f := s.deploymentOf(c, id)
	if f == nil {
		f = s.preflight(run)
	}
	if f != nil {
		return reply{}, f
	}
	properties := run.properties()
	properties["provisioningState"], properties["timestamp"], properties["duration"] =
		"Succeeded", "0001-01-01T00:00:00Z", "PT0S"
	validated := []any{}
	for _, p := range run.planned() {
		validated = append(validated, object{"id": p.ID})
	}
	properties["validatedResources"] = validated
	return ok(
		object{
			"id":         string(run.id),
			"name":       run.id.Name(),
			"type":       typeDeployment,
			"properties": properties,
		},
	), nil
}

// showDeployment leaves out what only the emulator needs to know.
func (s *deployments) showDeployment(r *resource, doc object, _ string) {
	delete(doc, "etag")
	delete(doc, "source")
	delete(doc, "run")
	if run := s.deployments[r.id.Key()]; run != nil {
		objectAt(doc, "properties")["provisioningState"] = run.State.Status
	}
}

// deploymentRemoved forgets a run with its document, such as with its resource group.
func (s *deployments) deploymentRemoved(r *resource) { delete(s.deployments, r.id.Key()) }
