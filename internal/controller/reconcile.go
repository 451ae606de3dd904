package controller

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
)

// Reconcile writes what is known of an object into it: its status, and the finalizer. It runs after
// every change of the object and after every check of its cluster, in the leader only.
func (c *controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	if !c.leads() {
		return reconcile.Result{}, nil
	}
	o := new(ClusterRoutes)
	if err := c.client.Get(ctx, r.NamespacedName, o); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	err := c.write(ctx, o)
	if errors.IsConflict(err) {
		// The cache is old: after an outage of the API server it stays so for half a minute.
		var now ClusterRoutesList
		err = c.reader.List(ctx, &now, client.InNamespace(o.Namespace),
			client.MatchingFields{"metadata.name": o.Name})
		if err == nil && len(now.Items) == 1 {
			err = c.write(ctx, &now.Items[0])
		}
	}
	return reconcile.Result{}, ignoreRace(err)
}

// write writes what is known of an object into it.
func (c *controller) write(ctx context.Context, o *ClusterRoutes) error {
	if c.o.foreign(o) {
		return nil
	}
	if err := c.finalize(ctx, o); err != nil {
		return err
	}
	refused, unguarded := c.set.state(o)
	s, checked := c.board.of(o.name())
	leaves := c.set.leaving(o)
	if !c.has(o.name()) && refused.reason == "" && leaves.reason == "" { // it waits for the keeper
		return nil
	}
	want, known := statusOf(o, leaves.of(s), checked, refused, unguarded, time.Now())
	want.Controller = c.o.name()
	if !known || reflect.DeepEqual(want, o.Status) {
		return nil
	}
	if refused.reason != "" && o.Status.LastError != want.LastError {
		c.say(o, "Warning", refused.reason, "Accept", refused.message)
	}
	o.Status = want
	return c.client.Status().Update(ctx, o)
}

// ignoreRace drops the error of a write that came too late: what changed the object triggers
// another one.
func ignoreRace(err error) error {
	if errors.IsConflict(err) || errors.IsNotFound(err) {
		return nil
	}
	return err
}

// finalize adds or removes the finalizer.
func (c *controller) finalize(ctx context.Context, o *ClusterRoutes) error {
	has := slices.Contains(o.Finalizers, v1alpha1.Finalizer)
	needs := o.Spec.OnRemoval == v1alpha1.RemovalPrune
	if o.DeletionTimestamp != nil {
		done, failed := c.set.removed(o)
		needs = has && !done
		if has && needs && failed != nil {
			c.say(o, "Warning", reasonRemovalFailed, "Remove", stays(failed))
		}
	}
	if has == needs {
		return nil
	}
	before := o.DeepCopyObject().(*ClusterRoutes)
	o.Finalizers = slices.DeleteFunc(o.Finalizers, func(name string) bool {
		return name == v1alpha1.Finalizer
	})
	if needs {
		o.Finalizers = append(o.Finalizers, v1alpha1.Finalizer)
	}
	pruned := c.set.pruned(o) // once the object is gone, the set may forget it
	err := c.client.Patch(ctx, o, client.MergeFromWithOptions(before,
		client.MergeFromWithOptimisticLock{}))
	if err == nil && o.DeletionTimestamp != nil && pruned {
		c.say(o, "Normal", "Removed", "Remove", "the routes were deleted from the targets")
	}
	return err
}

// say adds an Event to an object. Events with the same reason and action become one, with the
// message of the first: so the action names the resource. Names from Azure, from nodes and from
// other objects are in both, and programs that list Events write them to terminals as they are.
func (c *controller) say(o *ClusterRoutes, kind, reason, action, message string) {
	const longestNote, longestAction = 1024, 128 // the API server's limits
	c.events.Eventf(o, nil, kind, reason, short(action, longestAction), "%s",
		short(message, longestNote))
}

// short returns text that can be shown anywhere, with at most so many bytes.
func short(text string, most int) string {
	const more = "…"
	if text = finding.Show(text); len(text) > most {
		text = strings.ToValidUTF8(text[:most-len(more)], "") + more
	}
	return text
}

// tell adds Events about what a check changed, and about findings that are new or gone. A silenced
// finding is new when its silence has ended.
func (c *controller) tell(r keeper.Result) {
	news := finding.News(c.known, r.Findings)
	appeared := finding.Loud(slices.Concat(news.Appeared, news.Worse))
	known := c.known
	c.known = finding.ByKey(r.Findings)
	for key, f := range c.known {
		if _, before := known[key]; f.Silenced != nil && !before {
			delete(c.known, key)
		}
	}
	for _, config := range r.Checked() {
		if o := c.object(config.Metadata.Name); o != nil {
			for _, line := range changed(r, config.Metadata.Name) {
				what, _, _ := strings.Cut(line, " (")
				c.say(o, "Normal", "Changed", what, line)
			}
		}
	}
	for _, f := range appeared {
		kind := "Warning"
		if f.Severity == finding.Info {
			kind = "Normal"
		}
		if o := c.object(f.Cluster); o != nil {
			c.say(o, kind, reasonOf(f.Code), "Check "+arm.ID(f.Resource).Short(), f.Message)
		}
	}
	for _, f := range news.Gone {
		if o := c.object(f.Cluster); o != nil {
			c.say(o, "Normal", "Resolved", string(f.Code)+" "+arm.ID(f.Resource).Short(),
				string(f.Code)+": "+f.Message)
		}
	}
}
