// Package compute is Microsoft.Compute: scale sets, their instances and the instances' network
// interfaces.
package compute

import (
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/names"
	"routekeeper.dev/routekeeper/internal/emulator/network"
)

// Compute is Microsoft.Compute: scale sets and their instances.
type Compute struct {
	kernel  *kernel.Kernel
	network *network.Network
	entra   *entra.Entra
	Pools   pools
}

// New makes the service and adds it to the kernel.
func New(k *kernel.Kernel, n *network.Network, d *entra.Entra) *Compute {
	s := &Compute{kernel: k, network: n, entra: d}
	n.Instances = s
	k.Add(kernel.Service{Types: s.types(), Names: names.Of("compute"),
		Resume: kernel.Resumer{First: s.resumeScaleSets}})
	return s
}

// pools are the node pools of clusters. AKS decides which instances their scale sets have.
type pools interface {
	// PoolInstances are the instances of a pool's scale set and their subnet; ours is false if the
	// scale set is not a pool's.
	PoolInstances(set *kernel.Resource) (instances []Instance, subnet arm.ID, ours bool)
	// RemoveInstances deletes the nodes of some instances of a pool's scale set.
	RemoveInstances(set *kernel.Resource, gone func(number int) bool) *kernel.Failure
}

func (s *Compute) types() []kernel.Kind {
	return []kernel.Kind{
		s.entra.WithSystemIdentity(kernel.Kind{Name: arm.TypeScaleSet, Tracked: true, Merges: true,
			Keeps:  true,
			Facts:  scaleSetFacts(),
			Settle: s.settleScaleSet, Stored: s.storedScaleSet, Show: s.showScaleSet,
			Within: s.inScaleSet}),
		s.entra.WithSystemIdentity(kernel.Kind{Name: arm.TypeVM, Tracked: true,
			Settle: settleMachine}),
		{Name: TypeAvailabilitySet, Tracked: true, Immediate: true},
		{Name: TypeScaleSetExtension, Settle: s.settleExtension,
			Missing: [2]string{"NotFound", noEntity}},
	}
}

// settleMachine drops an empty object of capabilities. azurerm sends one for every machine, and if
// it were stored, azurerm's next plan would show a change.
func settleMachine(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	p := r.Properties()
	if asked, isObject := p["additionalCapabilities"].(kernel.Object); isObject && len(asked) == 0 {
		delete(p, "additionalCapabilities")
	}
	return nil
}

const TypeAvailabilitySet = "Microsoft.Compute/availabilitySets"
