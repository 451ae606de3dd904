package controller

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Leader is the replica that a Lease of controllers names.
type Leader struct {
	Namespace, Identity string
	Renewed             time.Time
	Alive               bool // it has renewed the lease in time
}

// Read reads all ClusterRoutes objects, and the Leases of their controllers: of one namespace, or
// of all. unknown says why the Leases cannot be read.
func Read(ctx context.Context, api *rest.Config, namespace string) (objects []ClusterRoutes,
	leaders []Leader, unknown error, err error) {
	scheme := runtime.NewScheme()
	addTo(scheme)
	c, err := client.New(api, client.Options{Scheme: scheme})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("the Kubernetes API server: %w", err)
	}
	var all ClusterRoutesList
	if err := c.List(ctx, &all); err != nil {
		return nil, nil, nil, fmt.Errorf("the ClusterRoutes objects cannot be read: %w", err)
	}
	coordinating, err := coordination.NewForConfig(api)
	if err != nil {
		return nil, nil, nil, err
	}
	leaders, unknown = readLeases(ctx, coordinating, namespace)
	return all.Items, leaders, unknown, nil
}

// readLeases reads one Lease by its name, because a controller's account may do no more.
func readLeases(ctx context.Context, c coordination.LeasesGetter, namespace string) ([]Leader,
	error) {
	var leaders []Leader
	add := func(namespace string, holder *string, renewed *metav1.MicroTime, seconds *int32) {
		if holder == nil || *holder == "" || renewed == nil || seconds == nil {
			return // it was released
		}
		valid := time.Duration(*seconds) * time.Second
		leaders = append(leaders, Leader{namespace, *holder, renewed.Time,
			time.Since(renewed.Time) < valid})
	}
	if namespace != "" {
		l, err := c.Leases(namespace).Get(ctx, leaseName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err == nil {
			add(l.Namespace, l.Spec.HolderIdentity, l.Spec.RenewTime, l.Spec.LeaseDurationSeconds)
		}
		return leaders, err
	}
	all, err := c.Leases("").List(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + leaseName})
	if err != nil {
		return nil, err
	}
	for _, l := range all.Items {
		add(l.Namespace, l.Spec.HolderIdentity, l.Spec.RenewTime, l.Spec.LeaseDurationSeconds)
	}
	return leaders, nil
}
