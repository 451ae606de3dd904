package config

import (
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/goccy/go-yaml/ast"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// mostPlaces limits the destinations of a Notify document, because each has a goroutine and a
// queue.
const mostPlaces = 20

// envName is a name of an environment variable that every shell can set.
var envName = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)

// isNotify reports whether a document is a Notify.
func (d *document) isNotify() bool {
	node, is := d.find("kind").(*ast.StringNode)
	return is && node.Value == v1alpha1.KindNotify
}

// ReadNotify reads the Notify document in files that may also hold ClusterRoutes. It returns nil if
// there is none. Paths in it become relative to the working directory. The error is an *Error.
func ReadNotify(files ...File) (*v1alpha1.Notify, error) {
	var docs []*document
	for _, f := range files {
		if err := parse(f, func(d *document) error {
			if d.isNotify() {
				docs = append(docs, d)
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return notifyOf(docs)
}

// notifyOf decodes and checks the only Notify among documents.
func notifyOf(docs []*document) (*v1alpha1.Notify, error) {
	switch len(docs) {
	case 0:
		return nil, nil
	case 1:
	default:
		return nil, docs[1].errorf("kind", "a second %s, expected one: the first is at %s",
			v1alpha1.KindNotify, docs[0].where("kind"))
	}
	n := &v1alpha1.Notify{}
	if err := docs[0].decode(v1alpha1.KindNotify, n); err != nil {
		return nil, err
	}
	return n, docs[0].checkNotify(n)
}

// checkNotify checks a Notify document, and makes its paths relative to the working directory.
func (d *document) checkNotify(n *v1alpha1.Notify) error {
	if err := oneOf(d, "apiVersion", n.APIVersion, v1alpha1.APIVersion); err != nil {
		return err
	}
	if page := n.Spec.Page; page != "" {
		u, err := url.Parse(page)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
			u.User != nil {
			return d.errorf("spec.page", "%s is not an address, expected one such as "+
				"https://routekeeper.example.com", quoted(page))
		}
	}
	if len(n.Spec.Places) == 0 || len(n.Spec.Places) > mostPlaces {
		return d.errorf("spec.places", "%d places, expected 1 to %d", len(n.Spec.Places),
			mostPlaces)
	}
	for i := range n.Spec.Places {
		if err := d.checkPlace(n.Spec.Places[:i], &n.Spec.Places[i],
			fmt.Sprintf("spec.places[%d]", i)); err != nil {
			return err
		}
	}
	return nil
}

func (d *document) checkPlace(before []v1alpha1.Place, p *v1alpha1.Place, field string) error {
	if err := CheckName(p.Name); err != nil {
		return d.errorf(field+".name", "%v", err)
	}
	for _, other := range before {
		if other.Name == p.Name {
			return d.errorf(field+".name", "listed twice, expected a unique name")
		}
	}
	if err := oneOf(d, field+".type", p.Type, v1alpha1.PlaceSlack, v1alpha1.PlaceTeams,
		v1alpha1.PlaceWebhook); err != nil {
		return err
	}
	switch {
	case (p.URLFile == "") == (p.URLEnv == ""):
		return d.errorf(field, "expected either urlFile or urlEnv: the URL is a secret, so a "+
			"file or an environment variable holds it")
	case p.URLEnv != "" && !envName().MatchString(p.URLEnv):
		return d.errorf(field+".urlEnv", "not the name of an environment variable, expected "+
			"letters, digits and _")
	case p.URLFile != "" && !filepath.IsAbs(p.URLFile):
		p.URLFile = filepath.Join(filepath.Dir(d.file), p.URLFile)
	}
	for i, s := range p.Send {
		if err := oneOf(d, fmt.Sprintf("%s.send[%d]", field, i), s, v1alpha1.NewsErrors,
			v1alpha1.NewsRepairs, v1alpha1.NewsConflicts, v1alpha1.NewsDecisions); err != nil {
			return err
		}
	}
	return nil
}
