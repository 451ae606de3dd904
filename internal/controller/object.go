package controller

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

// ClusterRoutes is a ClusterRoutes object of the Kubernetes API.
type ClusterRoutes struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              v1alpha1.Spec   `json:"spec"`
	Status            v1alpha1.Status `json:"status,omitzero"`
}

// ClusterRoutesList is a list of them.
type ClusterRoutesList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterRoutes `json:"items"`
}

// name returns the object's name as a config: namespaces and names have no dots.
func (o *ClusterRoutes) name() string { return o.Namespace + "." + o.Name }

func (o *ClusterRoutes) copyInto(out *ClusterRoutes) {
	*out = *o
	o.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.PodCIDRs = slices.Clone(o.Spec.PodCIDRs)
	out.Spec.Guard.Subnets = slices.Clone(o.Spec.Guard.Subnets)
	out.Spec.Egress.Routes = slices.Clone(o.Spec.Egress.Routes)
	out.Spec.Targets = slices.Clone(o.Spec.Targets)
	if o.Spec.Pause != nil {
		pause := *o.Spec.Pause
		out.Spec.Pause = &pause
	}
	out.Status.Conditions = slices.Clone(o.Status.Conditions)
	out.Status.Targets = slices.Clone(o.Status.Targets)
	if o.Status.LastChange != nil {
		change := *o.Status.LastChange
		out.Status.LastChange = &change
	}
}

// DeepCopyObject copies the object.
func (o *ClusterRoutes) DeepCopyObject() runtime.Object {
	out := new(ClusterRoutes)
	o.copyInto(out)
	return out
}

// DeepCopyObject copies the list.
func (l *ClusterRoutesList) DeepCopyObject() runtime.Object {
	out := &ClusterRoutesList{TypeMeta: l.TypeMeta, Items: make([]ClusterRoutes, len(l.Items))}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		l.Items[i].copyInto(&out.Items[i])
	}
	return out
}

var groupVersion = schema.GroupVersion{Group: "routekeeper.dev", Version: "v1alpha1"}

// addTo adds the kind to a scheme.
func addTo(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion, &ClusterRoutes{}, &ClusterRoutesList{})
	metav1.AddToGroupVersion(s, groupVersion)
}
