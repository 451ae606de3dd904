// Package deployments is Microsoft.Resources/deployments: templates, whose resources it writes by
// separate calls, in the name of the caller.
package deployments

import (
	"routekeeper.dev/routekeeper/internal/emulator/authorization"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// Deployments are Microsoft.Resources/deployments: templates, which make further calls.
type Deployments struct {
	kernel        *kernel.Kernel
	authorization *authorization.Authorization

	Runs map[string]*deploymentRun // those of the store, by ID.Key()
}

// New makes the service and adds it to the kernel.
func New(k *kernel.Kernel, a *authorization.Authorization) *Deployments {
	s := &Deployments{kernel: k, authorization: a, Runs: map[string]*deploymentRun{}}
	k.Add(kernel.Service{Types: s.types(), Calls: []kernel.Special{s.deploymentCall},
		Spell:  deploymentPath,
		Resume: kernel.Resumer{First: s.resumeDeployments, Ends: s.resumeActivity}})
	return s
}

// types returns deployments, which are resources of Microsoft.Resources.
func (s *Deployments) types() []kernel.Kind {
	return []kernel.Kind{{Name: TypeDeployment, Immediate: true, Linkless: true,
		Show:    s.showDeployment,
		Removed: s.deploymentRemoved}}
}
