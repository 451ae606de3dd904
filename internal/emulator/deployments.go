package emulator

// deploymentKinds are deployments, which are resources of Microsoft.Resources.
func (e *Emulator) deploymentKinds() []kind {
	return []kind{{name: typeDeployment, immediate: true, show: e.showDeployment,
		removed: e.deploymentRemoved}}
}

// deploymentCalls make deployments, and ask for what they did.
func (e *Emulator) deploymentCalls() []special { return []special{e.deploymentCall} }
