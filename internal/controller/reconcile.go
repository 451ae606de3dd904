package controller

import (
	"context"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

// patience is how long one reconciliation may take, because one that hangs delays all others.
const patience = 30 * time.Second

// work reconciles the objects in the queue, one after the other, until the queue is shut down. A
// failed object comes again, after a longer wait each time.
func (c *controller) work(ctx context.Context) {
	for key, ended := c.queue.Get(); !ended; key, ended = c.queue.Get() {
		limited, cancel := context.WithTimeout(ctx, patience)
		err := c.guarded(limited, key)
		cancel()
		c.metrics.count(err)
		if err == nil {
			c.queue.Forget(key)
		} else {
			c.log.Error("an object cannot be written", "object", key, "error", err.Error())
			c.queue.AddRateLimited(key)
		}
		c.queue.Done(key)
	}
}

// guarded reconciles an object. A fault that one object causes must not end the keeper of all.
func (c *controller) guarded(ctx context.Context, key string) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("panic: %v\n%s", fault, debug.Stack())
		}
	}()
	return c.reconcile(ctx, key)
}

// reconcile writes the status and the finalizer of an object, as far as they are known. It runs
// after every change of the object and after every check of its cluster, but only in the leader.
func (c *controller) reconcile(ctx context.Context, key string) error {
	if !c.leads() {
		return nil
	}
	o := c.objects.get(key)
	if o == nil {
		return nil
	}
	err := c.write(ctx, o)
	if errors.IsConflict(err) {
		// The copy may be old: after an outage of the API server it stays old for half a minute.
		if o, err = c.objects.fresh(ctx, o); err == nil && o != nil {
			err = c.write(ctx, o)
		}
	}
	return ignoreRace(err)
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
	if c.object(o.name()) == nil && refused.reason == "" && leaves.reason == "" {
		return nil // it waits for the keeper
	}
	s = promised(leaves.showIn(s), c.set.whyUnplaced())
	want, known := statusOf(o, s, checked, refused, unguarded, time.Now())
	want.Controller = c.o.name()
	if !known || reflect.DeepEqual(want, o.Status) {
		return nil
	}
	if refused.reason != "" && o.Status.LastError != want.LastError {
		c.addEvent(o, "Warning", refused.reason, "Accept", refused.message)
	}
	o.Status = want
	return c.objects.putStatus(ctx, o)
}

// ignoreRace drops the error of a write that came too late, because the change that overtook it
// triggers another one.
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
	if o.unclear() {
		needs = has
	}
	if o.DeletionTimestamp != nil {
		done, failed := c.set.removed(o)
		needs = has && !done
		if has && needs && failed != nil {
			c.addEvent(o, "Warning", reasonRemovalFailed, "Remove", stays(failed))
		}
	}
	if has == needs {
		return nil
	}
	o.Finalizers = slices.DeleteFunc(o.Finalizers, func(name string) bool {
		return name == v1alpha1.Finalizer
	})
	if needs {
		o.Finalizers = append(o.Finalizers, v1alpha1.Finalizer)
	}
	pruned := c.set.pruned(o) // once the object is gone, the set may forget it
	err := c.objects.putFinalizers(ctx, o)
	if err == nil && o.DeletionTimestamp != nil && pruned {
		c.addEvent(o, "Normal", "Removed", "Remove", "the routes were deleted from the targets")
	}
	return err
}
