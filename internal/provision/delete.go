package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Removal is what a cluster's removal does to one resource.
type Removal struct {
	ID arm.ID
	// Verb is Delete or Keep, or Change for a subnet that stays but loses its route table.
	Verb build.Verb
	Why  string // it is kept or changed
	Done bool
	Err  error
}

// Place finds the network that a cluster was built into, by the tags of its identity.
func Place(ctx context.Context, client *azure.Client, c build.Cluster) (build.Cluster, error) {
	identity, err := client.Find(ctx, c.IdentityID())
	return c.Placed(identity), err
}

// PreviewDelete lists what is deleted with a cluster, and what stays. With clusterOnly, only the
// cluster and what AKS made for it are deleted.
func PreviewDelete(ctx context.Context, client *azure.Client, c build.Cluster,
	clusterOnly bool) ([]Removal, error) {
	c, err := Place(ctx, client, c)
	if err != nil {
		return nil, err
	}
	var all []Removal
	for _, id := range c.Leftovers() {
		have, err := client.Find(ctx, id)
		if err != nil {
			return nil, err
		}
		if have == nil {
			continue
		}
		r := Removal{ID: id, Verb: build.Keep, Why: "only the cluster goes"}
		if !clusterOnly || id.Is(arm.TypeCluster) {
			r.Verb, r.Why = c.Removal(*have)
		}
		all = append(all, r)
	}
	if all, err = disassociated(ctx, client, c, all); err != nil {
		return nil, err
	}
	return keepGroup(ctx, client, c, all, goesOf(all))
}

// disassociated adds subnets that stay but lose their route table: Azure does not delete a table
// that a subnet uses. A table on a subnet of another owner stays.
func disassociated(ctx context.Context, client *azure.Client, c build.Cluster,
	all []Removal) ([]Removal, error) {
	goes := goesOf(all)
	for i := range all {
		table := &all[i]
		if !table.ID.Is(arm.TypeRouteTable) || table.Verb != build.Delete {
			continue
		}
		have, err := client.Find(ctx, table.ID)
		if err != nil {
			return nil, err
		}
		if have == nil {
			continue
		}
		var on []Removal
		for _, s := range gjson.GetBytes(have.Raw, "properties.subnets").Array() {
			subnet := arm.ID(s.Get("id").String())
			switch {
			case goes[subnet.Key()] || goes[subnet.Parent().Key()]:
			case slices.ContainsFunc(c.Subnets(), subnet.Equal):
				why := "its route table " + table.ID.Name() + " goes"
				on = append(on, Removal{ID: subnet, Verb: build.Change, Why: why})
			default:
				table.Verb = build.Keep
				table.Why = "others have associated the subnet " + subnet.Short() + " with it"
			}
		}
		if table.Verb == build.Delete {
			all = append(all, on...)
		}
	}
	slices.SortStableFunc(all, func(a, b Removal) int { return build.RemovalOrder(a.ID, b.ID) })
	return all, nil
}

// tableOf returns the route table of a subnet, "" for none.
func tableOf(subnet *arm.Document) arm.ID {
	return arm.ID(gjson.GetBytes(subnet.Raw, "properties.routeTable.id").String())
}

// keepGroup keeps the resource group if it holds anything else.
func keepGroup(ctx context.Context, client *azure.Client, c build.Cluster, all []Removal,
	goes map[string]bool) ([]Removal, error) {
	if !goes[c.GroupID().Key()] {
		return all, nil
	}
	held, err := client.Resources(ctx, c.GroupID())
	if err != nil {
		return nil, err
	}
	for _, id := range held {
		if !goes[id.Key()] {
			last := &all[len(all)-1]
			last.Verb, last.Why = build.Keep, "it holds "+id.Short()+", which stays"
			break
		}
	}
	return all, nil
}

// Delete deletes what PreviewDelete lists, one resource after the other, and checks again before
// each. It calls prune, which may be nil, when the cluster is gone but its identity still exists:
// the identity's tags say what the cluster used.
func Delete(ctx context.Context, client *azure.Client, c build.Cluster, clusterOnly bool,
	prune func(context.Context) error,
	tell func(number, of int, r Removal, elapsed time.Duration)) ([]Removal, error) {
	all, err := PreviewDelete(ctx, client, c, clusterOnly)
	if err != nil {
		return nil, err
	}
	if c, err = Place(ctx, client, c); err != nil {
		return nil, err
	}
	pruned := func() error {
		if prune == nil {
			return nil
		}
		defer func() { prune = nil }()
		return prune(ctx)
	}
	number, of := 0, 0
	for _, r := range all {
		if r.Verb != build.Keep {
			of++
		}
	}
	for i := range all {
		r := &all[i]
		if build.RemovalOrder(r.ID, c.IdentityID()) >= 0 {
			if err := pruned(); err != nil {
				return all, err
			}
		}
		began := time.Now()
		switch r.Verb {
		case build.Delete:
			r.Err = deleteOne(ctx, client, c, r.ID, goesOf(all[:i+1]))
		case build.Change:
			r.Err = disassociate(ctx, client, r.ID, goesOf(all))
		default:
			continue
		}
		number, r.Done = number+1, r.Err == nil
		tell(number, of, *r, time.Since(began))
		if r.Err != nil {
			return all, fmt.Errorf("step %d of %d, %s %s: %w", number, of, r.Verb, r.ID.Short(),
				r.Err)
		}
	}
	return all, pruned()
}

func goesOf(all []Removal) map[string]bool {
	goes := map[string]bool{}
	for _, r := range all {
		goes[r.ID.Key()] = r.Verb == build.Delete
	}
	return goes
}

// disassociate removes a route table from a subnet, and keeps the rest of the subnet as it is.
func disassociate(ctx context.Context, client *azure.Client, subnet arm.ID,
	goes map[string]bool) error {
	written, err := client.Write(ctx, subnet, func(doc arm.Document) ([]byte, error) {
		if table := tableOf(&doc); table == "" || !goes[table.Key()] {
			return nil, nil
		}
		return sjson.DeleteBytes(doc.Raw, "properties.routeTable")
	}, nil)
	if err == nil && tableOf(&written.After) != "" {
		err = errors.New("it still has a route table")
	}
	return err
}

// deleteOne deletes a resource if it still belongs to the cluster.
func deleteOne(ctx context.Context, client *azure.Client, c build.Cluster, id arm.ID,
	goes map[string]bool) error {
	have, err := client.Find(ctx, id)
	if err != nil || have == nil {
		return err
	}
	if !inventory.Settled(have.Raw) { // of a create or delete that was killed
		if have, err = client.Settle(ctx, id, clusterWithin); err != nil || have == nil {
			return err
		}
	}
	if verb, why := c.Removal(*have); verb != build.Delete {
		return fmt.Errorf("it must not be deleted: %s", why)
	}
	if id.Is(arm.TypeResourceGroup) { // deleting it deletes everything in it
		held, err := client.Resources(ctx, id)
		if err != nil {
			return err
		}
		for _, other := range held {
			if !goes[other.Key()] {
				return fmt.Errorf("it holds %s, which stays", other.Short())
			}
			if err := gone(ctx, client, other); err != nil {
				return err
			}
		}
	}
	return client.Remove(ctx, id, clusterWithin)
}

// gone waits until a deleted resource no longer exists: lists can be late.
func gone(ctx context.Context, client *azure.Client, id arm.ID) error {
	have, err := client.Find(ctx, id)
	if err == nil && have != nil {
		return fmt.Errorf("it still holds %s", id.Short())
	}
	return err
}
