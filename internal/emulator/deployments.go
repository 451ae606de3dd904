package emulator

// deployments are Microsoft.Resources/deployments: templates, which make calls of their own.
type deployments struct {
	kernel        *kernel
	authorization *authorization

	deployments map[string]*deploymentRun // those of the store, by ID.Key()
}

// newDeployments makes the service, and gives it its place in the kernel.
func newDeployments(k *kernel, a *authorization) *deployments {
	s := &deployments{kernel: k, authorization: a, deployments: map[string]*deploymentRun{}}
	k.add(service{types: s.types(), calls: []special{s.deploymentCall}, spell: deploymentPath,
		resume: resumer{first: s.resumeDeployments, ends: s.resumeActivity}})
	return s
}

// types are deployments, which are resources of Microsoft.Resources.
func (s *deployments) types() []kind {
	return []kind{{name: typeDeployment, immediate: true, linkless: true, show: s.showDeployment,
		removed: s.deploymentRemoved}}
}
