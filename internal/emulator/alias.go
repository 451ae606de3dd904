package emulator

import (
	"routekeeper.dev/routekeeper/internal/emulator/aks"
	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/network"
)

// What the options, the methods and the control calls of an Emulator speak of, for programs that
// import this package alone.
type (
	// Principal is an identity that can log in and that the activity log names.
	Principal = kernel.Principal
	// Fault is something that goes wrong with the next calls that match.
	Fault = kernel.Fault
	// Request is a line of the request log.
	Request = kernel.Request
	// Bucket is a token bucket, Buckets are the throttling limits.
	Bucket  = kernel.Bucket
	Buckets = kernel.Buckets
	// NewerField is a field that exists from an api-version on.
	NewerField = kernel.NewerField
	// Probe is a health probe of an Application Gateway, Health what the gateway says of a server.
	Probe  = network.Probe
	Health = network.Health
	// RouteBugs are ways in which a cloud provider differs from the usual one.
	RouteBugs = aks.RouteBugs
	// Kubernetes serves the clusters' API servers in place of the small one of package aks.
	Kubernetes = aks.Kubernetes
	// KubernetesCluster, KubernetesNode and KubernetesWorkload are what it serves.
	KubernetesCluster  = aks.KubernetesCluster
	KubernetesNode     = aks.KubernetesNode
	KubernetesWorkload = aks.KubernetesWorkload
)

// The healths of a server.
const (
	Healthy   = network.Healthy
	Unhealthy = network.Unhealthy
	Unknown   = network.Unknown
)

// AsOfHeader gives one call the date as of which Azure is to answer.
const AsOfHeader = kernel.AsOfHeader

// DefaultPrincipal logs in where the options name none.
var DefaultPrincipal = kernel.DefaultPrincipal

// SharedKey is one key for all emulators of a process: making one takes time.
var SharedKey = entra.SharedKey

// ReadFaults reads a file of faults.
func ReadFaults(path string) ([]Fault, error) { return kernel.ReadFaults(path) }
