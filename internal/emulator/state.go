package emulator

import (
	"net/http"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// State reads an emulator during a call of Options.Wrote, and only then.
type State struct{ e *Emulator }

// Get returns what a GET of a resource or a list answers; nil if the answer is an error.
func (s State) Get(path arm.ID, version string) []byte {
	who := s.e.opts.Principals[0]
	who.Tenant = s.e.opts.TenantID
	answer, f := s.e.kernel.ArmLocked(kernel.CallBy(who, http.MethodGet, path, version, nil))
	if f != nil {
		return nil
	}
	return answer.Body
}

// Nodes returns a cluster's nodes as kubectl get nodes -o json prints them.
func (s State) Nodes(cluster arm.ID) []byte { return s.e.aks.APIServers.NodeList(cluster) }
