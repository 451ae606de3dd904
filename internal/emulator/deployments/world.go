package deployments

import (
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
)

// This file has what a template asks of Azure (armtemplate.World). A deployment makes its calls in
// the name of its caller: faults, locks, policies and roles apply to them as to any other, and they
// are in the logs.

// resourcesVersion is for groups and subscriptions, whose api-version no template gives.
const resourcesVersion = "2021-04-01"

// callOf returns a call in the name of the deployment's caller.
func (run *deploymentRun) callOf(method string, id arm.ID, version string,
	body []byte) *kernel.Call {
	c := kernel.CallBy(run.State.Who, method, id, version, body)
	c.Base, c.IDs[1] = run.State.Base, run.State.Correlation
	return c
}

func (run *deploymentRun) call(method string, id arm.ID, version string,
	body []byte) (kernel.Reply, *kernel.Failure) {
	begin := time.Now()
	c := run.callOf(method, id, version, body)
	fault := run.kernel.Faults.Take(c, false)
	var answer kernel.Reply
	var f *kernel.Failure
	if fault != nil && fault.Before() {
		if f = fault.Failure(); fault.Status == 0 { // no client waits here
			f.Status = http.StatusBadGateway
		}
	} else {
		c.Fault = fault
		answer, f = run.kernel.ArmLocked(c)
	}
	if f != nil {
		answer = f.Reply()
	}
	run.kernel.Requests.Add(c, begin, answer, "deployment "+run.id.Name())
	return answer, f
}

// Resource reads a resource, a resource group or a subscription.
func (run *deploymentRun) Resource(id, version string) (*armtemplate.Object, error) {
	if version == "" {
		version = resourcesVersion
	}
	answer, f := run.call(http.MethodGet, arm.ID(id), version, nil)
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
func (run *deploymentRun) List(function, id, version string, body any) (any, error) {
	var raw []byte
	if body != nil {
		raw = armtemplate.JSON(body)
	}
	answer, f := run.call(http.MethodPost, arm.ID(id+"/"+function), version, raw)
	if f != nil {
		return nil, fmt.Errorf("%s: %s", f.Code, f.Message)
	}
	return armtemplate.Parse("", answer.Body)
}

func (run *deploymentRun) NewGUID() string { return uuid.NewString() }

func (run *deploymentRun) Now() time.Time { return run.began }

func (run *deploymentRun) deployer() *armtemplate.Object {
	doc, _ := armtemplate.Parse("", kernel.Encode(kernel.Object{
		"objectId": run.State.Who.ObjectID, "tenantId": run.State.Who.Tenant,
		"userPrincipalName": ""}))
	o, _ := doc.(*armtemplate.Object)
	return o
}
