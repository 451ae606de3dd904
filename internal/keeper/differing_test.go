package keeper

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// differing is a keeper with a config of its own.
type differing struct {
	d    *differ
	n    int
	stop func()

	mu      sync.Mutex
	k       *Keeper
	apis    map[string]*playedNodes
	configs []v1alpha1.ClusterRoutes
	recent  []drawn // earlier configs
	said    map[string][]finding.Finding
	did     []string
}

// drawn are configs that a keeper had until a moment.
type drawn struct {
	configs []v1alpha1.ClusterRoutes
	until   time.Time
}

func (k *differing) api(cluster arm.ID) *playedNodes {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.apis == nil {
		k.apis = map[string]*playedNodes{}
	}
	if k.apis[cluster.Key()] == nil {
		k.apis[cluster.Key()] = &playedNodes{}
	}
	return k.apis[cluster.Key()]
}

func (k *differing) Nodes(ctx context.Context, cluster *inventory.Cluster, wait time.Duration,
	changed func()) *inventory.Kubernetes {
	return k.api(cluster.ID).Nodes(ctx, cluster, wait, changed)
}

func (k *differing) Retain(map[string]bool) {}

// draw draws the keeper's config. Within one keeper, no config contradicts another.
func (k *differing) draw() {
	d := k.d
	often := func(percent int) bool { return d.by.IntN(100) < percent }
	pick := func(first string, percent int, second string) string {
		if often(percent) {
			return first
		}
		return second
	}
	var subnets []v1alpha1.GuardedSubnet
	for i, id := range d.guarded {
		s := v1alpha1.GuardedSubnet{SubnetID: string(id)}
		if often(70) {
			s.RouteTableID = string(d.table([]string{"e", "t"}[i] + pick("0", 75, "1")))
		}
		if often(40) {
			s.NATGatewayID = string(d.id(arm.TypeNATGateway, "nat"+pick("0", 75, "1")))
		}
		if often(40) {
			s.NetworkSecurityGroupID = string(d.id(arm.TypeSecurityGroup, "nsg"+pick("0", 75, "1")))
		}
		if s.RouteTableID+s.NATGatewayID+s.NetworkSecurityGroupID != "" {
			subnets = append(subnets, s)
		}
	}
	egress := v1alpha1.Egress{RouteTableID: string(d.table("e0")),
		Mode: v1alpha1.GuardMode(pick("Enforce", 60, "Observe")), Routes: []v1alpha1.EgressRoute{
			{Name: "out", AddressPrefix: "0.0.0.0/0",
				NextHopIPAddress: "10.60.9." + pick("4", 70, "5")}}}
	var configs []v1alpha1.ClusterRoutes
	for _, s := range d.sides {
		if !often(65) {
			continue
		}
		c := configure(s.name, s.cluster)
		for i, percent := range []int{75, 30} {
			if often(percent) {
				c.Spec.Targets = append(c.Spec.Targets, v1alpha1.Target{
					RouteTableID: string(d.table(fmt.Sprint("t", i))),
					Policy: v1alpha1.Policy(pick("Sync", 75, pick("UpsertOnly", 50,
						"Observe"))),
					MaxRoutes: []int{400, 400, 400, 4}[d.by.IntN(4)]})
			}
		}
		if s.table == "" {
			c.Spec.Source = v1alpha1.SourceNodes
		} else if often(30) {
			c.Spec.RouteTableID = string(s.table)
		} else if s.name == "k" && often(20) {
			c.Spec.RouteTableID = string(d.table("k-old"))
		}
		c.Spec.Guard.Mode = v1alpha1.GuardMode(pick("Enforce", 75, pick("Observe", 50, "Off")))
		c.Spec.Guard.OnOtherTable = v1alpha1.OnOtherTable(pick("Replace", 40, "Report"))
		c.Spec.Guard.SecurityGroups = v1alpha1.GuardMode(pick("Enforce", 60, "Observe"))
		for _, g := range subnets {
			if often(60) {
				c.Spec.Guard.Subnets = append(c.Spec.Guard.Subnets, g)
			}
		}
		if s.table == "" && often(50) {
			c.Spec.Egress = egress
		}
		c.Spec.OnRemoval = v1alpha1.OnRemoval(pick("Keep", 60, "Prune"))
		configs = append(configs, c)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.recent = append(k.recent, drawn{k.configs, time.Now()})
	k.configs = configs
}

// start starts the keeper. One that ends by itself, because its first reads fail, starts again.
func (k *differing) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	who := emulatortest.Keeper
	if k.n > 0 {
		who = provider
	}
	client := emulatortest.ClientOver(k.d.t, emulatortest.Transport(k.d.t, k), k.d.e, who)
	k.mu.Lock()
	k.said = map[string][]finding.Finding{}
	k.mu.Unlock()
	make := func() *Keeper {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.k = New(client, k.configs, Options{Nodes: k})
		return k.k
	}
	first := make()
	go func() {
		defer close(done)
		for keeper := first; ctx.Err() == nil; keeper = make() {
			if keeper.Run(ctx, time.Minute, k.hear) != nil {
				time.Sleep(5 * time.Second)
			}
		}
	}()
	k.stop = func() { cancel(); <-done }
}

func (k *differing) hear(r Result) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, o := range r.Changes {
		if o.State != plan.Planned {
			k.did = append(k.did, fmt.Sprintf("%s keeper %d, for %s: %s %s %s %s: %s",
				time.Now().Format("02 15:04:05"), k.n, o.Cluster, o.State, o.Verb,
				o.Resource.Short(), o.Route, o.Why))
		}
	}
	for _, name := range cmpOr(r.Of, r.Managed) {
		k.said[name] = slices.DeleteFunc(slices.Clone(r.Findings), func(f finding.Finding) bool {
			return f.Cluster != name && f.Cluster != ""
		})
	}
}

// had are the configs that a write of the keeper can rest on.
func (k *differing) had() (all []v1alpha1.ClusterRoutes) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all = slices.Clone(k.configs)
	for _, r := range k.recent {
		if time.Since(r.until) < leavingFor+underway {
			all = append(all, r.configs...)
		}
	}
	return all
}
