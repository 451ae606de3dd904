package provision

import (
	"context"
	"fmt"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Removal is what a cluster's removal does to one resource.
type Removal struct {
	ID   arm.ID
	Verb build.Verb // Delete or Keep
	Why  string     // it is kept
	Done bool
	Err  error
}

// PreviewDelete says what goes with a cluster, and what stays. With clusterOnly nothing goes but the
// cluster itself, and what AKS made for it.
func PreviewDelete(ctx context.Context, client *azure.Client, c build.Cluster, clusterOnly bool) ([]Removal, error) {
	var all []Removal
	goes := map[string]bool{}
	for _, id := range c.Leftovers() {
		if clusterOnly && !id.Is(arm.TypeCluster) {
			continue
		}
		have, err := client.Find(ctx, id)
		if err != nil {
			return nil, err
		}
		if have == nil {
			continue
		}
		r := Removal{ID: id}
		r.Verb, r.Why = c.Removal(*have)
		goes[id.Key()] = r.Verb == build.Delete
		all = append(all, r)
	}
	return keepGroup(ctx, client, c, all, goes)
}

// keepGroup keeps the resource group where it holds anything else.
func keepGroup(ctx context.Context, client *azure.Client, c build.Cluster, all []Removal, goes map[string]bool) ([]Removal, error) {
	if !goes[c.GroupID().Key()] {
		return all, nil
	}
	held, err := client.Resources(ctx, c.GroupID(), "", "")
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

// Delete takes away what PreviewDelete says, one after the other, and looks again before each.
func Delete(ctx context.Context, client *azure.Client, c build.Cluster, clusterOnly bool, tell func(number, of int, r Removal, elapsed time.Duration)) ([]Removal, error) {
	all, err := PreviewDelete(ctx, client, c, clusterOnly)
	if err != nil {
		return nil, err
	}
	for i := range all {
		r := &all[i]
		if r.Verb != build.Delete {
			continue
		}
		began := time.Now()
		r.Err = deleteOne(ctx, client, c, r.ID, goesOf(all[:i+1]))
		r.Done = r.Err == nil
		tell(i+1, len(all), *r, time.Since(began))
		if r.Err != nil {
			return all, fmt.Errorf("step %d of %d, deleting %s: %w", i+1, len(all), r.ID.Short(), r.Err)
		}
	}
	return all, nil
}

func goesOf(all []Removal) map[string]bool {
	goes := map[string]bool{}
	for _, r := range all {
		goes[r.ID.Key()] = r.Verb == build.Delete
	}
	return goes
}

// deleteOne deletes a resource, if it still is the cluster's.
func deleteOne(ctx context.Context, client *azure.Client, c build.Cluster, id arm.ID, goes map[string]bool) error {
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
		return fmt.Errorf("it is not to be deleted: %s", why)
	}
	if id.Is(arm.TypeResourceGroup) { // deleting it deletes all that is in it
		held, err := client.Resources(ctx, id, "", "")
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

// gone makes sure that what was deleted is not there any more: lists can be late.
func gone(ctx context.Context, client *azure.Client, id arm.ID) error {
	have, err := client.Find(ctx, id)
	if err == nil && have != nil {
		return fmt.Errorf("it still holds %s", id.Short())
	}
	return err
}
