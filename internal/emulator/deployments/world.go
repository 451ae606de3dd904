package deployments

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
)

func newTracking() string { return uuid.NewString() }

// deploymentWorld makes the calls of a deployment in the name of the caller: faults, locks,
// policies and roles apply to them as to any other, and they are in the logs.
type deploymentWorld struct {
	*Deployments
	run *deploymentRun
	now time.Time
}

// resourcesVersion is for groups and subscriptions, whose api-version no template gives.
const resourcesVersion = "2021-04-01"

// callOf returns a call in the name of the deployment's caller.
func (w *deploymentWorld) callOf(method string, id arm.ID, version string,
	body []byte) *kernel.Call {
	c := kernel.CallBy(w.run.State.Who, method, id, version, body)
	c.Base, c.IDs[1] = w.run.State.Base, w.run.State.Correlation
	return c
}

func (w *deploymentWorld) call(method string, id arm.ID, version string,
	body []byte) (kernel.Reply, *kernel.Failure) {
	begin := time.Now()
	c := w.callOf(method, id, version, body)
	fault := w.kernel.Faults.Take(c, false)
	var answer kernel.Reply
	var f *kernel.Failure
	if fault != nil && fault.Before() {
		if f = fault.Failure(); fault.Status == 0 { // no client waits here
			f.Status = http.StatusBadGateway
		}
	} else {
		c.Fault = fault
		answer, f = w.kernel.ArmLocked(c)
	}
	if f != nil {
		answer = f.Reply()
	}
	w.kernel.Requests.Add(c, begin, answer, "deployment "+w.run.id.Name())
	return answer, f
}

// Resource reads a resource, a resource group or a subscription.
func (w *deploymentWorld) Resource(id, version string) (*armtemplate.Object, error) {
	if version == "" {
		version = resourcesVersion
	}
	answer, f := w.call(http.MethodGet, arm.ID(id), version, nil)
	if f != nil {
		return nil, fmt.Errorf("%s: %s", f.Code, f.Message)
	}
	doc, err := armtemplate.Parse("", answer.Body)
	if err != nil {
		return nil, err
	}
	o, is := doc.(*armtemplate.Object)
	if !is {
		return nil, fmt.Errorf("%s is not a resource", id)
	}
	return o, nil
}

// List calls a function of a resource.
func (w *deploymentWorld) List(function, id, version string, body any) (any, error) {
	var raw []byte
	if body != nil {
		raw = armtemplate.JSON(body)
	}
	answer, f := w.call(http.MethodPost, arm.ID(id+"/"+function), version, raw)
	if f != nil {
		return nil, fmt.Errorf("%s: %s", f.Code, f.Message)
	}
	return armtemplate.Parse("", answer.Body)
}

func (w *deploymentWorld) NewGUID() string { return uuid.NewString() }

func (w *deploymentWorld) Now() time.Time { return w.now }

func (w *deploymentWorld) deployer() *armtemplate.Object {
	doc, _ := armtemplate.Parse("", kernel.Encode(kernel.Object{
		"objectId": w.run.State.Who.ObjectID, "tenantId": w.run.State.Who.Tenant,
		"userPrincipalName": ""}))
	o, _ := doc.(*armtemplate.Object)
	return o
}

// plainJSON converts a template's value to a document's.
func plainJSON(v any) any {
	d := json.NewDecoder(strings.NewReader(string(armtemplate.JSON(v))))
	d.UseNumber()
	var out any
	_ = d.Decode(&out) // written as JSON just now
	return out
}
