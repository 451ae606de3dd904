package deployments

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
)

// The states of a deployment and of its resources.
const (
	Accepted  = "Accepted"
	Running   = "Running"
	Succeeded = "Succeeded"
	Failed    = "Failed"
	Canceled  = "Canceled"
)

// deploymentRun is a deployment and its progress.
type deploymentRun struct {
	*Deployments
	id              arm.ID
	asked, template *armtemplate.Object // the properties of the call, and what it deploys
	ready           *armtemplate.Deployment
	began           time.Time
	activity        kernel.ActivityRecord
	parent          *deploymentRun // the parent of a nested one
	fault           *kernel.Fault  // of the call that started it
	stepping        bool
	plan            []plannedResource

	// State is saved.
	State deploymentState
}

// deploymentState is the saved progress of a deployment.
type deploymentState struct {
	Status      string           `json:"status"`
	Number      string           `json:"number"` // of its operation
	Started     time.Time        `json:"started"`
	Ended       time.Time        `json:"ended,omitzero"`
	Steps       []*step          `json:"steps,omitempty"`
	Who         kernel.Principal `json:"who"`
	Correlation string           `json:"correlation"`
	Base        string           `json:"base"`
	Location    string           `json:"location,omitempty"`
	// OutputID is the operation that evaluated the outputs.
	OutputID string `json:"outputID,omitempty"`
}

// step is the writing of one resource.
type step struct {
	ID        arm.ID          `json:"id"`
	Type      string          `json:"type"`
	Name      string          `json:"name"`
	Operation string          `json:"operation"`
	Tracking  string          `json:"tracking"`
	Status    string          `json:"status"`
	Code      int             `json:"code,omitempty"` // of the answer
	Failure   *kernel.Failure `json:"failure,omitempty"`
	Started   time.Time       `json:"started"`
	Ended     time.Time       `json:"ended,omitzero"`
	// follow is the operation that the step waits for, and tries how often its request was sent.
	// again is set if the request is to be sent once more.
	follow string
	again  bool
	tries  int
	of     *armtemplate.Resource
}

func (s *Deployments) newRun(state deploymentState) *deploymentRun {
	return &deploymentRun{Deployments: s, State: state, began: time.Now()}
}

// prepare reads the template.
func (run *deploymentRun) prepare() *kernel.Failure {
	o := armtemplate.Options{
		Subscription:   run.id.Subscription(),
		ResourceGroup:  run.id.ResourceGroup(),
		DeploymentName: run.id.Name(),
		Location:       run.State.Location,
		Deployer:       run.deployer(),
	}
	ready, err := armtemplate.Prepare(run.template, run.asked.Object("parameters"), o, run)
	if err != nil {
		return invalidTemplate("%v", err)
	}
	run.ready = ready
	for _, r := range ready.Resources() {
		if r.APIVersion == "" {
			return invalidTemplate("the resource '%s' has no apiVersion", r.ID)
		}
	}
	return nil
}

// active reports whether a deployment is running.
func (run *deploymentRun) active() bool {
	return run != nil && (run.State.Status == Accepted || run.State.Status == Running)
}

// begin stores the document of a deployment.
func (s *Deployments) begin(run *deploymentRun, fault *kernel.Fault) {
	run.fault = fault
	run.State.Status, run.State.Number = Accepted, operationNumber()
	run.State.Started = time.Now()
	body := kernel.Object{"properties": run.properties(),
		"source": string(armtemplate.JSON(run.template))}
	if run.State.Location != "" {
		body["location"] = run.State.Location
	}
	r := &kernel.Resource{ID: run.id, Body: body, Created: time.Now(), Changed: time.Now()}
	s.kernel.Store.Put(r)
	s.Runs[run.id.Key()] = run
	run.saveProgress()
}

// saveProgress records the progress in the document.
func (run *deploymentRun) saveProgress() {
	if r := run.kernel.Store.Get(run.id); r != nil {
		r.Body["run"] = string(kernel.Encode(run.State))
		run.kernel.Store.Changed(r)
	}
}

// step starts every resource that can start, and ends the deployment when nothing is running.
func (run *deploymentRun) step() {
	if run.stepping || !run.active() || run.Runs[run.id.Key()] != run {
		return // the group was deleted, or a part that ended at once called this again
	}
	run.stepping = true
	defer func() { run.stepping = false }()
	run.State.Status = Running
	if run.fault != nil && run.fault.Fail {
		run.end(run.fault.Failure())
		return
	}
	for started := true; started; {
		started = false
		for _, r := range run.ready.Resources() {
			if run.stepOf(r) == nil && run.canStart(r) {
				s := &step{of: r,
					ID: run.kernel.Spelled(arm.ID(r.ID)), Type: r.Type, Name: r.Name,
					Operation: operationID(), Tracking: uuid.NewString(), Status: Running,
					Started: time.Now()}
				run.State.Steps = append(run.State.Steps, s)
				run.start(s)
				started = true
			}
		}
	}
	run.saveProgress()
	if !slices.ContainsFunc(run.State.Steps, func(s *step) bool { return s.Status == Running }) {
		run.finish()
	}
}

func (run *deploymentRun) stepOf(r *armtemplate.Resource) *step {
	for _, s := range run.State.Steps {
		if s.ID.Equal(arm.ID(r.ID)) {
			return s
		}
	}
	return nil
}

// canStart reports whether all dependencies of a resource are done. A resource whose dependency
// failed is never started; the others are ([U]: whether Azure starts them after another branch has
// failed).
func (run *deploymentRun) canStart(r *armtemplate.Resource) bool {
	for _, need := range run.ready.Needs(r) {
		if s := run.stepOf(need); s == nil || s.Status != Succeeded {
			return false
		}
	}
	return true
}

// start writes a resource, or starts a nested deployment.
func (run *deploymentRun) start(s *step) {
	r := s.of
	s.tries++
	s.again = false
	if strings.EqualFold(r.Type, TypeDeployment) {
		run.startNested(s)
		return
	}
	body, err := run.ready.Body(r)
	if err == nil && onlyIfNotExists(body) && run.kernel.Store.Get(s.ID) != nil {
		run.ended(s, http.StatusOK, nil)
		return
	}
	if err != nil {
		run.ended(s, http.StatusBadRequest, run.unprocessable(r, err))
		return
	}
	answer, f := run.call(http.MethodPut, s.ID, r.APIVersion, resourceBody(body))
	if f != nil && retried(f) && s.tries < maxTries {
		s.again = true
		run.wait(s, time.Now().Add(time.Duration(max(1, f.RetryAfter))*time.Second))
		return
	}
	if f != nil {
		run.ended(s, f.Status, f)
		return
	}
	s.Code = answer.Status
	s.follow = followedOperation(answer)
	run.endOrWait(s)
}

// maxTries is how often a write is sent that is refused temporarily.
const maxTries = 20

// onlyIfNotExists reports whether an existing resource stays unchanged: Bicep's @onlyIfNotExists().
func onlyIfNotExists(body *armtemplate.Object) bool {
	only, _ := body.Object("@options").Get("onlyIfNotExists").(bool)
	return only
}

// retried reports whether Resource Manager sends a write again [U: how often].
func retried(f *kernel.Failure) bool {
	return f.Status == http.StatusTooManyRequests ||
		f.Status >= 500 && f.Status != http.StatusNotImplemented
}

// unprocessable returns the failure of an expression that cannot be evaluated when it is needed.
func (run *deploymentRun) unprocessable(r *armtemplate.Resource, err error) *kernel.Failure {
	return kernel.Bad("InvalidTemplate", "Unable to process template language expressions for "+
		"resource '%s' at line '%d' and column '1'. '%v'", r.ID, r.Line, err)
}

// resourceBody returns the request body of a template's resource.
func resourceBody(body *armtemplate.Object) []byte {
	out := &armtemplate.Object{}
	for _, m := range body.Members {
		switch strings.ToLower(m.Name) {
		case "apiversion", "type", "name", "dependson", "scope", "resourcegroup", "subscriptionid",
			"asserts", "metadata", "@options":
		default:
			out.Members = append(out.Members, m)
		}
	}
	return armtemplate.JSON(out)
}

// followedOperation returns the name of the operation that an answer names, or "".
func followedOperation(answer kernel.Reply) string {
	for _, name := range []string{"Azure-AsyncOperation", "Location"} {
		if url, _, _ := strings.Cut(answer.Header[name], "?"); url != "" {
			return url[strings.LastIndexByte(url, '/')+1:]
		}
	}
	return ""
}

// endOrWait ends a step whose operation has ended, or waits for the operation.
func (run *deploymentRun) endOrWait(s *step) {
	op := run.kernel.Operations[s.follow]
	switch {
	case op == nil:
		run.ended(s, s.Code, nil)
	case op.Ends.After(time.Now()):
		run.wait(s, op.Ends)
	default:
		run.ended(s, s.Code, op.Failure)
	}
}

// wait checks a step again at a time.
func (run *deploymentRun) wait(s *step, until time.Time) {
	run.kernel.At(until, func() { run.wake(s) })
}

func (run *deploymentRun) wake(s *step) {
	if s.Status != Running || run.Runs[run.id.Key()] != run {
		return
	}
	if !s.again {
		run.endOrWait(s)
	} else if !run.active() {
		run.ended(s, 0, kernel.Fail(http.StatusConflict, Canceled, "The deployment was cancelled."))
	} else {
		run.start(s)
	}
	if run.active() {
		run.step()
	} else {
		run.saveProgress()
	}
}

// ended records how a step ended.
func (run *deploymentRun) ended(s *step, code int, f *kernel.Failure) {
	s.Status, s.Ended, s.Failure = Succeeded, time.Now(), f
	if s.Code = code; f != nil {
		s.Status, s.Code = Failed, f.Status
	}
}

// finish ends the deployment by the results of its parts, and then evaluates its outputs.
func (run *deploymentRun) finish() {
	details := []any{}
	for _, s := range run.State.Steps {
		if s.Status == Failed {
			details = append(details, s.Failure.Document())
		}
	}
	if len(details) > 0 {
		f := kernel.Fail(http.StatusConflict, "DeploymentFailed", "At least one resource "+
			"deployment operation failed. Please list deployment operations for details. "+
			"Please see https://aka.ms/arm-deployment-operations for usage details.")
		f.Details = details
		run.end(f)
		return
	}
	outputs, err := run.ready.Outputs()
	if err != nil {
		run.end(kernel.Bad("DeploymentOutputEvaluationFailed",
			"Unable to evaluate template outputs: '%v'. Please see error details and deployment "+
				"operations. Please see https://aka.ms/arm-common-errors for usage details.", err))
		return
	}
	properties := run.kernel.Store.Get(run.id).Properties()
	if len(outputs.Members) > 0 {
		out := kernel.Object{}
		for _, m := range outputs.Members {
			o, _ := m.Value.(*armtemplate.Object)
			kind := o.Text("type")
			out[lowerFirst(m.Name)] = typedValue(kind, o.Get("value"),
				strings.HasPrefix(strings.ToLower(kind), "secure"))
		}
		properties["outputs"] = out
	}
	properties["outputResources"] = kernel.Links(run.writtenResources())
	run.State.OutputID = operationNumber()
	run.end(nil)
}

// writtenResources returns the resources that the deployment has written, those of nested ones
// included.
func (run *deploymentRun) writtenResources() []arm.ID {
	var out []arm.ID
	for _, s := range run.State.Steps {
		if nested := run.Runs[s.ID.Key()]; nested != nil && s.ID.Is(TypeDeployment) {
			out = append(out, nested.writtenResources()...)
		} else {
			out = append(out, s.ID)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// end ends the deployment, with its error if there is one, and its record in the activity log.
func (run *deploymentRun) end(f *kernel.Failure) {
	status := Succeeded
	if f != nil {
		status = Failed
		run.kernel.Store.Get(run.id).Properties()["error"] = f.Document()
	}
	run.endAs(status, f)
	if run.activity.OperationID != "" {
		run.kernel.Note(run.activity.Ended(f))
	}
}

// endAs records the end of the deployment, and lets its parent continue.
func (run *deploymentRun) endAs(status string, f *kernel.Failure) {
	run.State.Status, run.State.Ended = status, time.Now()
	properties := run.kernel.Store.Get(run.id).Properties()
	properties["timestamp"] = stamp(run.State.Ended)
	properties["duration"] = isoDuration(run.State.Ended.Sub(run.State.Started))
	run.saveProgress()
	if run.parent == nil {
		return
	}
	for _, s := range run.parent.State.Steps {
		if s.ID.Equal(run.id) && s.Status == Running {
			run.parent.ended(s, http.StatusOK, f)
			run.parent.step()
			run.parent.saveProgress()
		}
	}
}

// cancel ends the deployment at once, with the nested ones.
func (run *deploymentRun) cancel() {
	for _, s := range run.State.Steps {
		if nested := run.Runs[s.ID.Key()]; nested != nil && s.Status == Running && nested.active() {
			nested.parent = nil
			nested.cancel()
			run.ended(s, 0, nested.cancelled())
		}
	}
	run.endAs(Canceled, run.cancelled())
	if run.activity.OperationID != "" {
		run.kernel.Note(run.activity.Ended(nil))
	}
}

func (run *deploymentRun) cancelled() *kernel.Failure {
	return kernel.Fail(http.StatusConflict, Canceled, "The deployment '%s' was cancelled.",
		run.id.Name())
}
