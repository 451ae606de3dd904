package lab

import (
	"cmp"
	"context"
	"net/http"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
)

// trial is a trial that runs. Once a step of it has failed, err says why, and the further steps do
// nothing: so a trial reads as the list of its calls.
type trial struct {
	*lab
	ctx context.Context
	err error
}

// step does a step of a trial, unless an earlier one has failed.
func step[T any](t *trial, do func() (T, error)) (out T) {
	if t.err == nil {
		out, t.err = do()
	}
	return out
}

// took takes over the result of a change of a text.
func (t *trial) took(raw []byte, err error) []byte {
	t.err = cmp.Or(t.err, err)
	return raw
}

func (t *trial) get(id arm.ID) arm.Document {
	return step(t, func() (arm.Document, error) { return t.lab.get(t.ctx, id) })
}

func (t *trial) ready(id arm.ID) arm.Document {
	return step(t, func() (arm.Document, error) { return t.lab.ready(t.ctx, id) })
}

func (t *trial) put(id arm.ID, body []byte, etag string) azure.Reply {
	return step(t, func() (azure.Reply, error) { return t.lab.put(t.ctx, id, body, etag) })
}

func (t *trial) accepted(id arm.ID, body []byte) azure.Reply {
	return step(t, func() (azure.Reply, error) { return t.lab.accepted(t.ctx, id, body) })
}

func (t *trial) remove(id arm.ID) azure.Reply {
	r := azure.Request{Method: http.MethodDelete, Address: address(id, "", networkVersion)}
	return step(t, func() (azure.Reply, error) { return t.change(t.ctx, r) })
}

func (t *trial) follow(r azure.Reply) ending {
	return step(t, func() (ending, error) { return t.lab.follow(t.ctx, r) })
}

// after follows an answer's operation, and reads the resource until it is settled.
func (t *trial) after(r azure.Reply, id arm.ID) arm.Document {
	t.follow(r)
	return t.ready(id)
}

// write puts a document until it is accepted, follows the operation, and reads the resource until
// it is settled.
func (t *trial) write(id arm.ID, body []byte) arm.Document {
	return t.after(t.accepted(id, body), id)
}

// edit changes a document.
func (t *trial) edit(doc arm.Document, change func(arm.Document) (edit, error)) edit {
	return step(t, func() (edit, error) { return change(doc) })
}

// listed reports whether the list of a group's resources of a type shows one of them as expected.
func (t *trial) listed(id arm.ID, as func(gjson.Result) bool) (found bool) {
	t.each(address(t.group, "/providers/"+id.Type(), networkVersion), func(item gjson.Result) {
		found = found || id.Equal(arm.ID(item.Get("id").String())) && as(item)
	})
	return found
}

// each calls a function for each item of a list.
func (t *trial) each(list string, do func(gjson.Result)) {
	if t.err == nil {
		t.err = t.lab.each(t.ctx, list, do)
	}
}
