package config

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

// MostClusterBytes limits the text of a Cluster: about 500 pools.
const MostClusterBytes = 64 << 10

// Cluster is a Cluster that was read, with the positions of its fields.
type Cluster struct {
	v1alpha1.Cluster
	in *document
}

// ReadCluster reads the only Cluster in a file and sets the defaults. Package build checks its
// values. The error is an *Error.
func ReadCluster(f File) (*Cluster, error) {
	if len(f.Data) > MostClusterBytes {
		return nil, &Error{File: f.Name,
			Problem: fmt.Sprintf("longer than %d bytes, expected one %s",
				MostClusterBytes, v1alpha1.KindCluster)}
	}
	c := &Cluster{}
	err := parse(f, func(d *document) error {
		if c.in != nil {
			return d.errorAt(first(d.body), "", "a second document, expected one "+
				v1alpha1.KindCluster)
		}
		c.in = d
		return d.decode(v1alpha1.KindCluster, &c.Cluster)
	})
	if err != nil {
		return nil, err
	}
	if c.in == nil {
		return nil, &Error{File: f.Name, Problem: "found no document, expected a " +
			v1alpha1.KindCluster}
	}
	if err := oneOf(c.in, "apiVersion", c.APIVersion, v1alpha1.APIVersion); err != nil {
		return nil, err
	}
	if err := oneOf(c.in, "kind", c.Kind, v1alpha1.KindCluster); err != nil {
		return nil, err
	}
	c.SetDefaults()
	return c, nil
}

// Fault returns the error for a field by its path, such as spec.pools[0].count.
func (c *Cluster) Fault(field, problem string) *Error { return c.in.errorf(field, "%s", problem) }

// first returns where a document begins, because a mapping's own position is after its first key.
func first(body ast.Node) ast.Node {
	if m, is := body.(*ast.MappingNode); is && len(m.Values) > 0 {
		return m.Values[0].Key
	}
	return body
}
