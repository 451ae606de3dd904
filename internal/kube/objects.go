package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

// ClusterRoutes is a ClusterRoutes object, as far as its controller describes it. A status of other
// types than this version's is as far as it can be decoded.
type ClusterRoutes struct {
	Metadata struct {
		Namespace, Name string
		Generation      int64
	}
	Status v1alpha1.Status
}

// Leader is the replica that a Lease of controllers names.
type Leader struct {
	Namespace, Identity string
	Renewed             time.Time
	Alive               bool // it has renewed the lease in time
}

// ClusterRoutes reads all ClusterRoutes objects.
func (c *Client) ClusterRoutes(ctx context.Context) ([]ClusterRoutes, error) {
	all, _, err := pages(ctx, c, "/apis/routekeeper.dev/v1alpha1/clusterroutes",
		func(page []byte) ([]ClusterRoutes, error) {
			var list struct{ Items []ClusterRoutes }
			err := json.Unmarshal(page, &list)
			if _, is := errors.AsType[*json.UnmarshalTypeError](err); is && list.Items != nil {
				err = nil
			}
			return list.Items, err
		})
	var f *failure
	switch {
	case err == nil:
		return all, nil
	case errors.As(err, &f) && f.status == http.StatusNotFound:
		return nil, fmt.Errorf("the Kubernetes API server at %s does not serve ClusterRoutes: run "+
			"routekeeper init schema --kind CustomResourceDefinition | kubectl apply -f -",
			c.server)
	case errors.As(err, &f):
		return nil, fmt.Errorf("the ClusterRoutes objects cannot be read: %s", oneLine(err))
	}
	return nil, fmt.Errorf("the Kubernetes API server at %s does not answer: %s", c.server,
		oneLine(err))
}

// Leaders reads the Leases of controllers: of one namespace, or of all. In a namespace it reads one
// Lease by its name, because a controller's account may do no more.
func (c *Client) Leaders(ctx context.Context, namespace string) ([]Leader, error) {
	const api = "/apis/coordination.k8s.io/v1/"
	path := api + "leases"
	query := url.Values{"fieldSelector": {"metadata.name=" + v1alpha1.LeaseName}}
	list := struct{ Items []lease }{make([]lease, 1)}
	var into any = &list
	if namespace != "" {
		path, query = api+"namespaces/"+url.PathEscape(namespace)+"/leases/"+v1alpha1.LeaseName, nil
		into = &list.Items[0]
	}
	raw, err := c.get(ctx, path, query)
	if f, is := errors.AsType[*failure](err); is && f.status == http.StatusNotFound &&
		namespace != "" {
		return nil, nil
	}
	if err != nil {
		return nil, errors.New(oneLine(err))
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return nil, err
	}
	var leaders []Leader
	for _, l := range list.Items {
		if l.Spec.HolderIdentity == "" || l.Spec.RenewTime.IsZero() {
			continue // it was released
		}
		valid := time.Duration(l.Spec.LeaseDurationSeconds) * time.Second
		leaders = append(leaders, Leader{l.Metadata.Namespace, l.Spec.HolderIdentity,
			l.Spec.RenewTime, time.Since(l.Spec.RenewTime) < valid})
	}
	return leaders, nil
}

// lease is a Lease of Kubernetes.
type lease struct {
	Metadata struct{ Namespace string }
	Spec     struct {
		HolderIdentity       string
		RenewTime            time.Time
		LeaseDurationSeconds int
	}
}

// serviceAccount is where a pod finds its namespace.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// PodNamespace returns the namespace of the pod that this program runs in, if its service account
// is the login; otherwise "".
func (c *Client) PodNamespace() string {
	if c.context != inCluster {
		return ""
	}
	namespace, err := os.ReadFile(serviceAccount)
	if err != nil {
		return "" // the token is elsewhere
	}
	return strings.TrimSpace(string(namespace))
}
