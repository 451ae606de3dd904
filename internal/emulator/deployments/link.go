package deployments

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

const (
	// linkTime is how long all linked templates of one call may take.
	linkTime = 30 * time.Second
	// maxLinks is how many templates one deployment may link to, directly or through others.
	maxLinks = 20
)

// linkedTemplates replaces the links in a deployment with the templates that they lead to. A linked
// template is like a nested one with its own scope of expressions, but is stored elsewhere.
type linkedTemplates struct {
	client http.Client
	ctx    context.Context
	got    int
	failed *kernel.Failure
}

// download gets the linked templates of a deployment before the call is handled, because no lock
// may be held during a download. If one cannot be downloaded, the deployment is refused later,
// after the check of the caller's rights.
func (s *Deployments) download(c *kernel.Call) {
	if c.Method != http.MethodPut && c.Method != http.MethodPost ||
		!strings.Contains(c.Key(), "/microsoft.resources/deployments/") ||
		!strings.Contains(string(c.Body), `"templateLink"`) {
		return
	}
	sent, f := kernel.DecodeObject(c.Body)
	if f != nil {
		return // it is refused later, as any invalid body
	}
	ctx, cancel := context.WithTimeout(context.Background(), linkTime)
	defer cancel()
	all := &linkedTemplates{client: http.Client{Transport: s.opts.Templates}, ctx: ctx}
	all.resolve(kernel.ObjectAt(sent, "properties"), "")
	if all.failed != nil {
		c.Found = all.failed
	}
	c.Body = kernel.Encode(sent)
}

// resolve replaces the link in a deployment's properties with the linked template, and then the
// links in that template. from is the address of the template that contains the link.
func (l *linkedTemplates) resolve(properties kernel.Object, from string) {
	link := kernel.ObjectAt(properties, "templateLink")
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
		properties["expressionEvaluationOptions"] = kernel.Object{"scope": "inner"}
		from = at
	}
	template := kernel.ObjectAt(properties, "template")
	nested := kernel.ListAt(template, "resources")
	for _, r := range kernel.ObjectAt(template, "resources") { // by their symbolic names
		if o, is := r.(kernel.Object); is {
			nested = append(nested, o)
		}
	}
	for _, r := range nested {
		if strings.EqualFold(kernel.Text(r, "type"), TypeDeployment) {
			l.resolve(kernel.ObjectAt(r, "properties"), from)
		}
	}
}

// address returns the address of a linked template, "" if it is not known before the deployment.
func (l *linkedTemplates) address(link kernel.Object, from string) string {
	at := kernel.Text(link, "uri")
	if at == "" {
		base, err := url.Parse(from)
		relative, err2 := url.Parse(kernel.Text(link, "relativePath"))
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

// get downloads one template. Anything else counts as a failed download.
func (l *linkedTemplates) get(at string) kernel.Object {
	refused := func() kernel.Object {
		l.failed = kernel.Fail(http.StatusBadRequest, "InvalidContentLink", "Unable to download "+
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
	body, err := io.ReadAll(io.LimitReader(answer.Body, kernel.MaxBody))
	if err != nil || answer.StatusCode != http.StatusOK {
		return refused()
	}
	template, f := kernel.DecodeObject(body)
	if f != nil {
		return refused()
	}
	return template
}
