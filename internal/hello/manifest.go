package hello

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"

	_ "embed"

	"routekeeper.dev/routekeeper/internal/kube"
)

//go:embed hello.yaml
var manifest string

// plurals are the kinds in the manifest, as API paths name them.
var plurals = map[string]string{
	"Namespace": "namespaces", "Service": "services", "DaemonSet": "daemonsets",
	"Deployment": "deployments",
}

// document is an object of the manifest.
type document struct {
	kube.Object
	raw []byte // as JSON
}

// documents returns the objects of the manifest in the order in which they are applied.
func documents(namespace, image string) ([]document, error) {
	text := strings.NewReplacer("NAMESPACE", namespace, "IMAGE", image).Replace(manifest)
	var all []document
	for d := yaml.NewDecoder(bytes.NewReader([]byte(text))); ; {
		var doc map[string]any
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(doc)
		if err != nil {
			return nil, err
		}
		var head struct {
			APIVersion, Kind string
			Metadata         struct{ Name, Namespace string }
		}
		if err := json.Unmarshal(raw, &head); err != nil {
			return nil, err
		}
		if plurals[head.Kind] == "" {
			return nil, fmt.Errorf("the manifest has a %s", head.Kind)
		}
		all = append(all, document{kube.Object{
			APIVersion: head.APIVersion, Plural: plurals[head.Kind],
			Namespace: head.Metadata.Namespace, Name: head.Metadata.Name,
		}, raw})
	}
}
