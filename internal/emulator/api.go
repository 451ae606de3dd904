package emulator

import (
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// The methods for programs and tests, in addition to calls over HTTP. Control calls do the same.

// Inject adds a fault. The returned function removes it.
func (e *Emulator) Inject(f Fault) (remove func(), err error) { return e.kernel.Faults.Inject(f) }

// Faults returns the faults injected and how often each has happened.
func (e *Emulator) Faults() []Fault { return e.kernel.Faults.Injected() }

// ClearFaults removes all faults.
func (e *Emulator) ClearFaults() { e.kernel.Faults.Clear() }

// Requests returns the logged requests with a number above since, in order.
func (e *Emulator) Requests(since int) []Request { return e.kernel.Requests.Since(since) }

// LastRequest returns the number of the last request.
func (e *Emulator) LastRequest() int { return e.kernel.Requests.Last() }

// Token issues a token for a principal of the options, as the login endpoints do.
func (e *Emulator) Token(p Principal, audience string) (token string, expires time.Time,
	err error) {
	return e.entra.Identity.Token(p, audience)
}

// RegisterIssuer registers the keys of a token issuer that publishes none. Federated credentials of
// identities can name it.
func (e *Emulator) RegisterIssuer(issuer string, keys []byte) error {
	return e.entra.RegisterIssuer(issuer, keys)
}

// DelayRole makes a role assignment take effect only after a delay. It reports whether the
// assignment exists.
func (e *Emulator) DelayRole(assignment arm.ID, delay time.Duration) bool {
	return e.authorization.DelayRole(assignment, delay)
}

// PauseRoutes pauses and resumes a cluster's cloud provider. It reports whether the cluster has
// one.
func (e *Emulator) PauseRoutes(cluster arm.ID, paused bool) bool {
	return e.aks.PauseRoutes(cluster, paused)
}

// Scale sets a pool's number of nodes.
func (e *Emulator) Scale(cluster arm.ID, pool string, count int) error {
	return e.aks.Scale(cluster, pool, count)
}

// Readdress replaces a node by one that has the same name and another address.
func (e *Emulator) Readdress(cluster arm.ID, node string) error {
	return e.aks.Readdress(cluster, node)
}

// ServeKubernetes lets k answer for the API servers of all clusters from now on. It is called
// before the emulator serves anything.
func (e *Emulator) ServeKubernetes(k Kubernetes) { e.aks.APIServers.ServeKubernetes(k) }

// SetServices sets a cluster's services of type LoadBalancer, as the cloud provider does, and
// returns the address of each by the service's UID.
func (e *Emulator) SetServices(cluster arm.ID, services []Service) (map[string]string, error) {
	return e.aks.APIServers.SetServices(cluster, services)
}

// KubernetesClusters returns all clusters, sorted by ID. Only the clusters that nodesOf selects
// have their nodes, because many nodes take time.
func (e *Emulator) KubernetesClusters(nodesOf func(arm.ID) bool) []KubernetesCluster {
	return e.aks.APIServers.KubernetesClusters(nodesOf)
}
