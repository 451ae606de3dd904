package emulator

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Options are the settings of an emulator. Every flag of routekeeper emulator has one.
type Options struct {
	// Scenario is what it starts with. "": empty subscriptions. "demo": a network, a kubenet
	// cluster of three nodes and an Application Gateway's subnet with its own table; Emulator.Demo
	// names them. "fleet": 30 kubenet clusters, one of 50 and one of 390 nodes: four are broken,
	// one is stopped, one migrates, and the network of one cannot be read.
	Scenario string
	// Subscriptions and Tenants are how many of each there are. 0: 1. The subscriptions are
	// assigned to the tenants in turn.
	Subscriptions, Tenants int
	// Principals replace Default. The first has all rights. The others are Owners, unless their
	// NoRoles is set.
	Principals []Principal
	// AnyClusterIdentity lets clusters write to existing networks without a role there, which Azure
	// refuses.
	AnyClusterIdentity bool
	// OperationTime is how long a long-running operation takes. 0: a write is done when it is
	// answered.
	OperationTime time.Duration
	// RouteBatch is how long a cluster's cloud provider collects route changes before it writes
	// them, RouteCache how long it trusts its copy of the route table: 30 seconds and 2 minutes on
	// Azure. 0: no time.
	RouteBatch, RouteCache time.Duration
	// RoleDelay is how long a new role assignment takes to have an effect: up to 60 minutes on
	// Azure.
	RoleDelay time.Duration
	// AlertDelay is how long after a write its activity log alerts fire: 3 to 20 minutes on Azure.
	AlertDelay time.Duration
	// AsOf answers as Azure did on a date, because some of its defaults have changed over the
	// years. Zero: today.
	AsOf time.Time
	// RouteLimit is how many routes a table can hold. 0: 400.
	RouteLimit int
	// PageSize is how many resources a page of a list holds. 0: 100.
	PageSize int
	// Faults are injected at the start, after the scenario is built.
	Faults []Fault
	// Persist is a folder for the state. An emulator started later with the same folder continues
	// with it, at the same addresses if they are free.
	Persist string
	// HTTPS and HTTP are the addresses at which it listens, such as 127.0.0.1:8443. "": free ports
	// on loopback.
	HTTPS, HTTP string
	// KubeAPIServer is the path of kube-apiserver. It gives each cluster a real Kubernetes API
	// server, with etcd, controllers and scheduler. These programs are in the same folder, but Etcd
	// can name another path for etcd. All calls between simulated pods arrive.
	KubeAPIServer, Etcd string
	// Log receives messages for the person at the terminal; on level debug, every request.
	Log *slog.Logger
}

// check refuses contradictory settings and fills in defaults.
func (o *Options) check() error {
	o.Subscriptions, o.Tenants = max(o.Subscriptions, 1), max(o.Tenants, 1)
	if o.Tenants > o.Subscriptions {
		return fmt.Errorf("%d tenants need as many subscriptions, not %d", o.Tenants,
			o.Subscriptions)
	}
	for _, d := range []time.Duration{o.OperationTime, o.RouteBatch, o.RouteCache, o.RoleDelay,
		o.AlertDelay} {
		if d < 0 {
			return fmt.Errorf("a time of %s is in the past", d)
		}
	}
	if o.Etcd != "" && o.KubeAPIServer == "" {
		return errors.New("etcd is for a kube-apiserver only")
	}
	if len(o.Principals) == 0 {
		o.Principals = []Principal{Default}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	switch o.Scenario {
	case "", "demo", "fleet":
		return nil
	}
	return fmt.Errorf("unknown scenario %q, expected demo or fleet", o.Scenario)
}
