package emulator

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	// linkTime is how long all linked templates of one call may take.
	linkTime = 30 * time.Second
	// maxLinks is how many templates may be linked, one in the other.
	maxLinks = 20
)

// linkedTemplates puts the templates that a deployment links to into it: a link is a nested
// template, with expressions of its own, that lies elsewhere.
type linkedTemplates struct {
	client http.Client
	ctx    context.Context
	got    int
	failed *failure
}

// download gets the linked templates of a deployment before the call is answered: nothing may be
// locked meanwhile. What cannot be downloaded is refused once it is known that the caller may
// deploy.
func (s *deployments) download(c *call) {
	if c.method != http.MethodPut && c.method != http.MethodPost ||
		!strings.Contains(c.key(), "/microsoft.resources/deployments/") ||
		!strings.Contains(string(c.body), `"templateLink"`) {
		return
	}
	sent, f := decodeObject(c.body)
	if f != nil {
		return // it is refused as what it is
	}
	ctx, cancel := context.WithTimeout(context.Background(), linkTime)
	defer cancel()
	all := &linkedTemplates{client: http.Client{Transport: s.kernel.opts.Templates}, ctx: ctx}
	all.resolve(objectAt(sent, "properties"), "")
	c.unlinked = all.failed
	c.body = encode(sent)
}

// resolve puts the template that a deployment's properties link to in the place of the link, and
// does so in the template itself. from is where the template around it lies.
func (l *linkedTemplates) resolve(properties object, from string) {
	link := objectAt(properties, "templateLink")
	if link != nil && properties["template"] == nil {
		at := l.address(link, from)
		if at == "" || l.failed != nil {
			return // a template spec, or an address that only the deployment knows
		}
		template := l.get(at)
		if template == nil {
			return
		}
		properties["template"] = template
		delete(properties, "templateLink")
		properties["expressionEvaluationOptions"] = object{"scope": "inner"}
		from = at
	}
	template := objectAt(properties, "template")
	nested := listAt(template, "resources")
	for _, r := range objectAt(template, "resources") { // by their symbolic names
		if o, is := r.(object); is {
			nested = append(nested, o)
		}
	}
	for _, r := range nested {
		if strings.EqualFold(text(r, "type"), typeDeployment) {
			l.resolve(objectAt(r, "properties"), from)
		}
	}
}

// address is where a linked template lies, "" where nothing says so that can be known now.
func (l *linkedTemplates) address(link object, from string) string {
	at := text(link, "uri")
	if at == "" {
		base, err := url.Parse(from)
		relative, err2 := url.Parse(text(link, "relativePath"))
		if err != nil || err2 != nil || from == "" || relative.Path == "" {
			return ""
		}
		at = base.ResolveReference(relative).String()
	}
	if strings.HasPrefix(at, "[") {
		return ""
	}
	return at
}

// get downloads one template. What is no template is none that can be downloaded.
func (l *linkedTemplates) get(at string) object {
	refused := func() object {
		l.failed = fail(http.StatusBadRequest, "InvalidContentLink", "Unable to download "+
			"deployment content from '%s'. The tracking Id is '%s'. Please see "+
			"https://aka.ms/arm-deploy for usage details.", at, uuid.NewString())
		return nil
	}
	if l.got++; l.got > maxLinks {
		return refused()
	}
	request, err := http.NewRequestWithContext(l.ctx, http.MethodGet, at, nil)
	if err != nil || request.URL.Scheme != "http" && request.URL.Scheme != "https" {
		return refused()
	}
	answer, err := l.client.Do(request)
	if err != nil {
		return refused()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxBody))
	if err != nil || answer.StatusCode != http.StatusOK {
		return refused()
	}
	template, f := decodeObject(body)
	if f != nil {
		return refused()
	}
	return template
}
