package controller

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

// ClusterRoutes is a ClusterRoutes object of the Kubernetes API.
type ClusterRoutes struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              v1alpha1.Spec   `json:"spec"`
	Status            v1alpha1.Status `json:"status,omitzero"`
	// undecodable names the field of the object's spec that has another type than in Spec, and says
	// what is wrong with it. Spec lacks this field.
	undecodable string
}

// name returns the name of the object's config. It is unique, because namespaces have no dots and
// routekeeper accepts none in names.
func (o *ClusterRoutes) name() string { return o.Namespace + "." + o.Name }

// key returns the object's name in the cache and in the queue.
func (o *ClusterRoutes) key() string { return o.Namespace + "/" + o.Name }

// decode returns an object that shares nothing with from. It never fails, because an object of a
// newer version of the kind must not hide the others. A status with fields of other types counts as
// none, and is written again.
func decode(from any) *ClusterRoutes {
	is := from.(*unstructured.Unstructured)
	o := &ClusterRoutes{ObjectMeta: metav1.ObjectMeta{Namespace: is.GetNamespace(),
		Name: is.GetName(), UID: is.GetUID(), Generation: is.GetGeneration(),
		ResourceVersion: is.GetResourceVersion(), Finalizers: is.GetFinalizers(),
		CreationTimestamp: is.GetCreationTimestamp(),
		DeletionTimestamp: is.GetDeletionTimestamp()}}
	o.undecodable = decodeField(is, "spec", &o.Spec)
	if decodeField(is, "status", &o.Status) != "" {
		o.Status = v1alpha1.Status{Controller: o.Status.Controller}
	}
	return o
}

// decodeField decodes what it can of a field of an object, and says what it cannot, or returns "".
func decodeField(is *unstructured.Unstructured, field string, into any) string {
	text, err := json.Marshal(is.Object[field])
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if e, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		return strings.TrimSuffix(field+"."+e.Field, ".") + ": found " + e.Value +
			", which this version of the controller cannot decode"
	} else if err != nil {
		return field + ": " + err.Error()
	}
	return ""
}

var clusterRoutes = schema.GroupVersionResource{Group: "routekeeper.dev", Version: "v1alpha1",
	Resource: "clusterroutes"}

// objects are the ClusterRoutes objects that the controller sees. How it works: informers of
// client-go list and watch them, in all namespaces or one for each, and keep copies. All reads use
// the copies, except fresh.
type objects struct {
	api        dynamic.NamespaceableResourceInterface
	namespaces []string
	informers  []cache.SharedIndexInformer // one for each namespace
}

func newObjects(api dynamic.Interface, o Options) *objects {
	all := &objects{api: api.Resource(clusterRoutes),
		namespaces: slices.Compact(slices.Sorted(slices.Values(o.Namespaces)))}
	if len(all.namespaces) == 0 {
		all.namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range all.namespaces {
		in := all.api.Namespace(namespace)
		all.informers = append(all.informers, cache.NewSharedIndexInformer(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context,
				list metav1.ListOptions) (runtime.Object, error) {
				list.LabelSelector = o.Selector
				return in.List(ctx, list)
			},
			WatchFuncWithContext: func(ctx context.Context,
				list metav1.ListOptions) (watch.Interface, error) {
				list.LabelSelector = o.Selector
				return in.Watch(ctx, list)
			},
		}, &unstructured.Unstructured{}, 0, nil))
	}
	return all
}

// probe reads one object, to see whether the API server serves them.
func (all *objects) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := all.api.Namespace(all.namespaces[0]).List(ctx, metav1.ListOptions{Limit: 1})
	return err
}

// follow keeps the copies current until serving ends. It returns once all objects were read, or ctx
// ends. failed receives the errors.
func (all *objects) follow(ctx, serving context.Context, handler cache.ResourceEventHandler,
	failed func(error)) {
	var read []cache.InformerSynced
	for _, informer := range all.informers {
		// Both fail only if the informer runs already, or has ended.
		_, _ = informer.AddEventHandler(handler)
		_ = informer.SetWatchErrorHandlerWithContext(
			func(_ context.Context, _ *cache.Reflector, err error) { failed(err) })
		go informer.RunWithContext(serving)
		read = append(read, informer.HasSynced)
	}
	cache.WaitForCacheSync(ctx.Done(), read...)
}

// list returns all objects.
func (all *objects) list() (found []ClusterRoutes) {
	for _, informer := range all.informers {
		for _, is := range informer.GetStore().List() {
			found = append(found, *decode(is))
		}
	}
	return found
}

// get returns an object, or nil if there is none.
func (all *objects) get(key string) *ClusterRoutes {
	for _, informer := range all.informers {
		if is, has, _ := informer.GetStore().GetByKey(key); has { // a store in memory has no errors
			return decode(is)
		}
	}
	return nil
}

// fresh reads an object from the API server, or returns nil if it is gone. It uses a list, because
// the controller has no other permission to read.
func (all *objects) fresh(ctx context.Context, o *ClusterRoutes) (*ClusterRoutes, error) {
	now, err := all.api.Namespace(o.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + o.Name})
	if err != nil || len(now.Items) != 1 {
		return nil, err
	}
	return decode(&now.Items[0]), nil
}

// putStatus writes the status of an object if it has not changed.
func (all *objects) putStatus(ctx context.Context, o *ClusterRoutes) error {
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&o.Status)
	if err == nil {
		_, err = all.api.Namespace(o.Namespace).UpdateStatus(ctx,
			&unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.APIVersion,
				"kind": v1alpha1.Kind, "metadata": map[string]any{"namespace": o.Namespace,
					"name": o.Name, "resourceVersion": o.ResourceVersion}, "status": status}},
			metav1.UpdateOptions{})
	}
	return err
}

// putFinalizers writes the finalizers of an object if the object has not changed. o then has the
// new state of the object.
func (all *objects) putFinalizers(ctx context.Context, o *ClusterRoutes) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": o.ResourceVersion, "finalizers": o.Finalizers}})
	if err != nil {
		return err
	}
	is, err := all.api.Namespace(o.Namespace).Patch(ctx, o.Name, types.MergePatchType, patch,
		metav1.PatchOptions{})
	if err != nil {
		return err
	}
	*o = *decode(is)
	return nil
}
