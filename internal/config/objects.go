package config

import (
	"errors"
	"fmt"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

// Objects checks ClusterRoutes objects of the Kubernetes API as Read checks documents. Each file is
// one object; its name, such as namespace.name, becomes the name of the config. A wrong object does
// not affect the others. Objects returns the ones that are valid together and, by file name, why
// each other one is refused. If two objects contradict each other, the one that comes first wins.
func Objects(files []File) (valid []v1alpha1.ClusterRoutes, refused map[string]*Error) {
	refused = map[string]*Error{}
	refuse := func(name string, err error) {
		var mistake *Error
		if !errors.As(err, &mistake) {
			mistake = &Error{File: name, Problem: err.Error()}
		}
		refused[name] = mistake
	}
	var docs []*routes
	for _, f := range files {
		found, _, err := readRoutes(f)
		if err == nil && len(found) != 1 {
			err = fmt.Errorf("found %d documents, expected one", len(found))
		}
		if err == nil {
			d := found[0]
			d.object = true
			d.spec.SetDefaults()
			if err = d.check(); err == nil {
				if d.spec.Metadata.Name = f.Name; d.spec.Clusterless() {
					d.spec.Spec.ClusterID = v1alpha1.NoCluster + f.Name
				}
				err = d.checkAgainst(docs)
			}
		}
		if err != nil {
			refuse(f.Name, err)
			continue
		}
		docs = append(docs, found[0])
	}
	// Refuse an object with a target that is another object's table, or with egress routes that
	// contradict another object. Then start over, because the refused object no longer counts.
	for again := true; again; {
		again = false
		for i, d := range docs {
			if err := d.checkTargets(docs); err != nil {
				refuse(d.file, err)
				docs, again = append(docs[:i:i], docs[i+1:]...), true
				break
			}
		}
	}
	for _, d := range docs {
		valid = append(valid, d.spec)
	}
	return valid, refused
}
