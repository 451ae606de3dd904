package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

// A controller that runs inside a cluster it guards. How it works: if the cluster's egress is in
// the route table that can be lost, its nodes lose Azure together with the table, and nothing
// inside the cluster can put the table back. The guard then only observes, and the condition
// Guarded says why. Until a check has shown where a cluster's egress is, the guard observes too.
//
// The machines of the nodes say which cluster it is. Until they were read, all clusters are
// guarded, because that harms none, but Guarded promises nothing, and the replica is not ready.

var nodes = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}

// unplacedYet is why the cluster is not known before the nodes were read once.
const unplacedYet = "its nodes were not read yet"

// locate finds out in which cluster the controller runs. It tries again until a node says so, or
// the context ends: a new node does not yet say which machine it is.
func (c *controller) locate(ctx context.Context) {
	warned := false
	for pause := time.Second; c.o.Inside; pause = min(2*pause, time.Minute) {
		own, err := c.machines(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.log.Error("the nodes of the cluster that the controller runs in cannot be read",
				"error", err.Error(), "again", pause.String())
			c.set.notePlace("", err.Error())
		case own != "":
			c.set.notePlace(own, "")
			return
		default:
			if !warned {
				c.log.Warn("no node says which machine it is: whether a cluster can be guarded " +
					"from inside is not checked")
			}
			warned = true
			c.set.notePlace("", "")
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// machines returns the node resource group of the cluster that the controller runs in, or "" if no
// node says which machine it is.
func (c *controller) machines(ctx context.Context) (arm.ID, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := c.nodes.List(ctx, metav1.ListOptions{Limit: 20})
	if err != nil {
		return "", err
	}
	for _, n := range found.Items {
		machine, _, _ := unstructured.NestedString(n.Object, "spec", "providerID")
		if id := (inventory.Node{ProviderID: machine}).Machine(); id != "" {
			return id.Group(), nil
		}
	}
	return "", nil
}

// notePlace notes the node resource group of the cluster that the controller runs in, or why it is
// not known.
func (s *set) notePlace(own arm.ID, unplaced string) {
	s.mu.Lock()
	changed := s.own != own || s.unplaced != unplaced
	s.own, s.unplaced = own, unplaced
	s.mu.Unlock()
	if changed {
		s.dirty()
	}
}

// whyUnplaced says why it is not known in which cluster the controller runs, or returns "".
func (s *set) whyUnplaced() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unplaced
}

// promised returns what a check showed. While it is not known whether the controller would lose
// Azure together with a table, the result does not promise that lost tables are put back.
func promised(s shown, unplaced string) shown {
	s.conditions = slices.Clone(s.conditions)
	for i := range s.conditions {
		if c := &s.conditions[i]; unplaced != "" && c.Type == v1alpha1.ConditionGuarded &&
			c.Status == "True" && c.Reason == reasonEnforced {
			c.Status, c.Reason = "Unknown", "PlaceUnknown"
			c.Message += "; but if this controller runs in the cluster, it may lose Azure " +
				"together with a table, and in which cluster it runs is not known: " + unplaced
		}
	}
	return s
}

// judgement says whether a cluster can be guarded from where the controller runs.
type judgement struct {
	made   bool
	refuse string // why not, or ""
}

// judge judges a cluster by what a check read. own is the node resource group of the nodes that
// the controller runs on.
func judge(own arm.ID, r keeper.Result, config *v1alpha1.ClusterRoutes) judgement {
	cluster := r.Seen.Cluster(arm.ID(config.Spec.ClusterID))
	if cluster == nil {
		return judgement{}
	}
	if !cluster.IsNodeGroup(own) {
		return judgement{made: true}
	}
	egress := ""
	switch table := r.Seen.Table(plan.Discover(r.Seen, config, plan.TakenBy(r.Configs)).Table); {
	case table != nil && defaultRoute(table) != "":
		egress = fmt.Sprintf("%s has the route %s", table.ID.Short(), defaultRoute(table))
	case strings.EqualFold(cluster.Outbound, "userDefinedRouting"):
		egress = "its outbound type is userDefinedRouting"
	case table == nil:
		return judgement{}
	}
	if egress == "" {
		return judgement{made: true}
	}
	return judgement{true, "the cluster's egress is in the route table that a subnet can lose (" +
		egress + "), and this controller runs in the cluster: it would lose Azure together with " +
		"the table. Lost tables are reported, and not put back; run routekeeper outside the " +
		"cluster"}
}

// defaultRoute describes a table's default route, unless it leads to the internet as it would
// without a table.
func defaultRoute(table *inventory.RouteTable) string {
	i := slices.IndexFunc(table.Routes(), func(r inventory.Route) bool {
		return r.Prefix.Addr().Is4() && r.Prefix.Bits() <= 1 && // 0.0.0.0/0, or half of it
			!strings.EqualFold(r.HopType, inventory.HopInternet)
	})
	if i < 0 {
		return ""
	}
	return table.Routes()[i].Prefix.String() + " to " + table.Routes()[i].NextHop()
}
