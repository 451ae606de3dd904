// Package emulator is an Azure emulator: Azure Resource Manager over HTTP, made of the services
// below it. It has virtual networks, route tables and AKS clusters, whose cloud provider writes
// routes as the real one does. Real clients work with it unmodified, and the changes that break a
// network on Azure break it here.
//
// It shares resource IDs with package arm, prefixes and decoders with package inventory, and the
// evaluator of templates with package armtemplate. It shares nothing else with the rest of the
// program, because tests judge the other packages by its answers.
package emulator

import (
	"cmp"
	"context"
	"crypto/rsa"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/aks"
	"routekeeper.dev/routekeeper/internal/emulator/authorization"
	"routekeeper.dev/routekeeper/internal/emulator/compute"
	"routekeeper.dev/routekeeper/internal/emulator/control"
	"routekeeper.dev/routekeeper/internal/emulator/deployments"
	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/insights"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/keyvault"
	"routekeeper.dev/routekeeper/internal/emulator/network"
	"routekeeper.dev/routekeeper/internal/emulator/resources"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Options are the settings of the emulator. The zero value is one subscription, one principal, and
// writes that are done at once.
type Options struct {
	// Subscriptions are their GUIDs.
	Subscriptions []string
	// TenantID is the GUID of the tenant.
	TenantID string
	// Tenants are the tenants of subscriptions outside TenantID: the tenant's GUID by the
	// subscription's.
	Tenants map[string]string
	// Principals can log in; the first is the default one, which has all rights.
	Principals []Principal
	// RoleDelay is how long a new role assignment takes to have an effect: up to 60 minutes on
	// Azure.
	RoleDelay time.Duration
	// StrictLists refuses a list if the caller may read only some of it; otherwise the list is
	// shorter. Azure does both.
	StrictLists bool
	// CheckClusterIdentity checks the rights of clusters as Azure does: an identity with roles on
	// the existing network, when the cluster is written and whenever its cloud provider writes
	// routes. Otherwise clusters have all rights.
	CheckClusterIdentity bool
	// OperationTime is how long a write keeps its resource busy. 0: a write is done when it is
	// answered.
	OperationTime time.Duration
	// AsOf is the date whose defaults apply, because some of Azure's defaults have changed over the
	// years. Zero: today.
	AsOf time.Time
	// RouteLimit is how many routes a table holds. 0: 400.
	RouteLimit int
	// PageSize is how many resources a list page holds. 0: 100.
	PageSize int
	// RouteBatch is how long a cluster's cloud provider collects route changes before it writes
	// them (30 s on Azure), and RouteCache how long it uses its copy of the table (120 s on Azure).
	RouteBatch, RouteCache time.Duration
	// IgnoreSubnetETag makes subnets accept any If-Match: whether Azure checks it there is not
	// documented.
	IgnoreSubnetETag bool
	// SeparateSubnetETags gives each subnet its own ETag; otherwise a virtual network and its
	// subnets share one.
	SeparateSubnetETags bool
	// Buckets are the throttling limits; the zero value has Azure's (AZURE.md).
	Buckets Buckets
	// StateFile keeps the state, so that it survives a restart and a SIGKILL. "": it ends with the
	// process.
	StateFile string
	// AlertDelay is how long after a write its activity log alerts fire (3 to 20 minutes on Azure).
	AlertDelay time.Duration
	// Webhooks is the transport to the webhooks of action groups. Nil: the network.
	Webhooks http.RoundTripper
	// Probe finds out whether a probe of an Application Gateway arrives, and is answered; the text
	// says why not. It may call the emulator. Nil: the health of every server is Unknown.
	Probe func(context.Context, Probe) (Health, string)
	// Wrote is called after each write of a resource by any caller, and after each change of a
	// cluster's nodes, with what has changed. Nothing else happens until it returns. Nil: not
	// called.
	Wrote func(arm.ID, State)
	// LogBodies is the number of the last requests whose bodies the log keeps. 0: 10,000.
	LogBodies int
	// Key signs tokens. Nil: a new key. Tests use SharedKey to save time.
	Key *rsa.PrivateKey
	// Log receives messages for the person at the terminal. Nil: nothing.
	Log *slog.Logger
}

// AddSubscriptions adds subscriptions with generated IDs, and replaces Tenants: the subscriptions
// belong to the tenants in turn.
func (o *Options) AddSubscriptions(subscriptions, tenants int) {
	o.Tenants = map[string]string{}
	for i := range subscriptions {
		id := fmt.Sprintf("5ab00000-0000-4000-8000-%012d", i+1)
		o.Subscriptions = append(o.Subscriptions, id)
		if tenant := i % tenants; tenant > 0 {
			o.Tenants[id] = fmt.Sprintf("7e4a0000-0000-4000-8000-%012d", tenant+1)
		}
	}
}

// DefaultSubscription, DefaultTenant and DefaultPrincipal are used if the options name none.
const (
	DefaultSubscription = "5ab00000-0000-4000-8000-000000000001"
	DefaultTenant       = "7e4a0000-0000-4000-8000-000000000001"
)

// Emulator is a running emulator. It is an http.Handler; Close stops its background work.
//
// The kernel handles every call first; the service of a resource type does what is particular to
// the type.
type Emulator struct {
	opts          Options
	kernel        *kernel.Kernel
	network       *network.Network
	compute       *compute.Compute
	aks           *aks.AKS
	entra         *entra.Entra
	authorization *authorization.Authorization
	insights      *insights.Insights
	deployments   *deployments.Deployments
}

// New makes an emulator that has only its subscriptions.
func New(opts Options) (*Emulator, error) {
	if len(opts.Subscriptions) == 0 {
		opts.Subscriptions = []string{DefaultSubscription}
	}
	if len(opts.Principals) == 0 {
		opts.Principals = []Principal{DefaultPrincipal}
	}
	opts.TenantID = cmp.Or(opts.TenantID, DefaultTenant)
	opts.PageSize = cmp.Or(opts.PageSize, 100)
	opts.RouteLimit = cmp.Or(opts.RouteLimit, inventory.DefaultRouteLimit)
	opts.LogBodies = cmp.Or(opts.LogBodies, 10_000)
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	e := &Emulator{opts: opts}
	var wrote func(arm.ID)
	if opts.Wrote != nil {
		wrote = func(id arm.ID) { opts.Wrote(id, State{e}) }
	}
	k := kernel.New(kernel.Options{
		Subscriptions: opts.Subscriptions, TenantID: opts.TenantID, Tenants: opts.Tenants,
		Principals: opts.Principals, OperationTime: opts.OperationTime, AsOf: opts.AsOf,
		PageSize: opts.PageSize, Buckets: opts.Buckets,
		LogBodies: opts.LogBodies, Log: opts.Log, Wrote: wrote,
	})
	e.kernel = k
	e.entra = entra.New(k, opts.Key)
	e.network = network.New(k, network.Options{RouteLimit: opts.RouteLimit,
		IgnoreSubnetETag: opts.IgnoreSubnetETag, SeparateSubnetETags: opts.SeparateSubnetETags,
		Probe: opts.Probe})
	e.authorization = authorization.New(k, e.entra,
		authorization.Options{StrictLists: opts.StrictLists, RoleDelay: opts.RoleDelay})
	resources.New(k, e.authorization)
	e.compute = compute.New(k, e.network, e.entra)
	e.aks = aks.New(k, e.network, e.compute, e.entra, e.authorization, aks.Options{
		RouteBatch: opts.RouteBatch, RouteCache: opts.RouteCache,
		CheckClusterIdentity: opts.CheckClusterIdentity})
	e.insights = insights.New(k, e.entra, e.authorization,
		insights.Options{AlertDelay: opts.AlertDelay, Webhooks: opts.Webhooks})
	keyvault.New(k)
	e.deployments = deployments.New(k, e.authorization)
	k.Control = control.New(k, e.aks, e.authorization, e.entra).Answer
	if opts.StateFile != "" {
		if err := k.Open(opts.StateFile); err != nil {
			return nil, err
		}
	}
	if !k.Restored {
		e.firstRoles()
	}
	return e, nil
}

// Restored reports whether it started with a saved state.
func (e *Emulator) Restored() bool { return e.kernel.Restored }

// firstRoles makes the principals of the options Owners, except principals that start without
// roles.
func (e *Emulator) firstRoles() {
	defer e.kernel.Lock()()
	for _, s := range e.opts.Subscriptions {
		for _, p := range e.opts.Principals[1:] {
			if p.Tenant == "" {
				p.Tenant = e.opts.TenantID
			}
			if !p.NoRoles && strings.EqualFold(p.Tenant, e.kernel.Opts.TenantOf(s)) {
				e.authorization.Assign(arm.SubscriptionID(s), p, "Owner")
			}
		}
	}
}

// Close stops the clusters' cloud providers and pending alerts. Requests are still answered.
func (e *Emulator) Close() {
	e.kernel.Close()
	e.insights.Wait()
}

// ServeHTTP answers requests to ARM and to the login endpoints, and the control calls under
// /_emulator/.
func (e *Emulator) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.kernel.Serve(w, r, true) }

// Public answers like ServeHTTP, without the control calls.
func (e *Emulator) Public() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.kernel.Serve(w, r, false)
	})
}
