package emulator

// deployments are Microsoft.Resources/deployments: templates, which make calls of their own.
type deployments struct {
	kernel        *kernel
	authorization *authorization

	deployments map[string]*deploymentRun // those of the store, by ID.Key()
}

// types are deployments, which are resources of Microsoft.Resources.
func (s *deployments) types() []kind {
	return []kind{{name: typeDeployment, immediate: true, linkless: true, show: s.showDeployment,
		removed: s.deploymentRemoved}}
}

// keep goes on with deployments that were under way.
func (s *deployments) keep() {
	s.kernel.resumers = append(s.kernel.resumers,
		resumer{first: s.resumeDeployments, ends: s.resumeActivity})
}

// calls make deployments, and ask for what they did.
func (s *deployments) calls() []special { return []special{s.deploymentCall} }
