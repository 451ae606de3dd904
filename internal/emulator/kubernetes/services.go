package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"routekeeper.dev/routekeeper/internal/emulator"
)

// services is the part of the cloud provider that gives services of type LoadBalancer addresses.
type services struct{ *cluster }

// cleanup is the finalizer of services with a load balancer.
const cleanup = "service.kubernetes.io/load-balancer-cleanup"

// serviceDocument is a service, as far as it is read here.
type serviceDocument struct {
	Metadata struct {
		Namespace, Name, UID string
		Annotations          map[string]string
		Finalizers           []string
		DeletionTimestamp    *string
	}
	Spec struct {
		Type                     string
		LoadBalancerClass        *string
		LoadBalancerSourceRanges []string
		Ports                    []emulator.ServicePort
	}
	Status struct {
		LoadBalancer struct{ Ingress []struct{ IP string } }
	}
}

// balanced reports whether the cloud provider makes a load balancer for the service.
func (d *serviceDocument) balanced() bool {
	return d.Spec.Type == "LoadBalancer" && d.Spec.LoadBalancerClass == nil &&
		d.Metadata.DeletionTimestamp == nil
}

// write makes the load balancers of all services, and writes their addresses to their status.
func (s *services) write(ctx context.Context) error {
	all, err := s.list(ctx, "/api/v1/services")
	if err != nil {
		return err
	}
	var docs []*serviceDocument
	var wanted []emulator.Service
	for _, raw := range all.Items {
		d := &serviceDocument{}
		if err := json.Unmarshal(raw, d); err != nil {
			return err
		}
		docs = append(docs, d)
		if d.balanced() {
			const internal = "service.beta.kubernetes.io/azure-load-balancer-internal"
			wanted = append(wanted, emulator.Service{Namespace: d.Metadata.Namespace,
				Name: d.Metadata.Name, UID: d.Metadata.UID,
				Internal: d.Metadata.Annotations[internal] == "true",
				Sources:  d.Spec.LoadBalancerSourceRanges, Ports: d.Spec.Ports})
		}
	}
	addresses, err := s.k.e.SetServices(s.id, wanted)
	if err != nil {
		return err
	}
	var failed []error
	for _, d := range docs {
		failed = append(failed, s.update(ctx, d, addresses[d.Metadata.UID]))
	}
	return errors.Join(failed...)
}

// update writes a service's finalizer and its address, or removes them.
func (s *services) update(ctx context.Context, d *serviceDocument, address string) error {
	path := "/api/v1/namespaces/" + d.Metadata.Namespace + "/services/" + d.Metadata.Name
	had := slices.Contains(d.Metadata.Finalizers, cleanup)
	var ingress []object
	finalizers := slices.DeleteFunc(d.Metadata.Finalizers, func(f string) bool {
		return f == cleanup
	})
	if d.balanced() {
		finalizers = append(finalizers, cleanup)
		ingress = []object{{"ip": address, "ipMode": "VIP"}}
	} else if !had {
		return nil // it never had a load balancer
	}
	shown := d.Status.LoadBalancer.Ingress
	if len(shown) != len(ingress) || len(shown) > 0 && shown[0].IP != address {
		if err := s.cp.merge(ctx, path+"/status", object{"status": object{
			"loadBalancer": object{"ingress": ingress}}}); err != nil {
			return err
		}
	}
	if had == d.balanced() {
		return nil
	}
	return s.cp.merge(ctx, path, object{"metadata": object{"finalizers": finalizers}})
}
