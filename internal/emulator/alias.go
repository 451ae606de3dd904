package emulator

import (
	"routekeeper.dev/routekeeper/internal/emulator/aks"
	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/network"
)

// The types of an Emulator's options, methods and control calls, so that programs need to import
// only this package.
type (
	// Principal is an identity that can log in and that the activity log names.
	Principal = kernel.Principal
	// Fault is an error in the next calls that match.
	Fault = kernel.Fault
	// Request is a line of the request log.
	Request = kernel.Request
	// Bucket is a token bucket, Buckets are the throttling limits.
	Bucket  = kernel.Bucket
	Buckets = kernel.Buckets
	// Probe is a health probe of an Application Gateway, Health what the gateway says of a server.
	Probe  = network.Probe
	Health = network.Health
	// Kubernetes serves the clusters' API servers in place of the small one of package aks.
	Kubernetes = aks.Kubernetes
	// KubernetesCluster, KubernetesNode and KubernetesWorkload are what it serves, Service and
	// ServicePort what gets a load balancer.
	KubernetesCluster  = aks.KubernetesCluster
	KubernetesNode     = aks.KubernetesNode
	Service            = aks.Service
	ServicePort        = aks.ServicePort
	KubernetesWorkload = aks.KubernetesWorkload
)

// The healths of a server.
const (
	Healthy   = network.Healthy
	Unhealthy = network.Unhealthy
	Unknown   = network.Unknown
)

// AsOfHeader sets the date as of which one call is answered.
const AsOfHeader = kernel.AsOfHeader

// DefaultPrincipal is the login if the options name none.
var DefaultPrincipal = kernel.DefaultPrincipal

// SharedKey is one key for all emulators of a process: generating one takes time.
var SharedKey = entra.SharedKey

// ReadFaults reads a file of faults.
var ReadFaults = kernel.ReadFaults
