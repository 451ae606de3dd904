package controller

import (
	"context"
	"encoding/json"
	stderrors "errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
)

// events writes Events of objects. How it works: a goroutine writes them, so that no check waits
// for the API server. An Event that happens again within some minutes continues the first one's
// series. If the API server does not answer, a limited number of Events wait for it.
type events struct {
	api    dynamic.NamespaceableResourceInterface
	log    *slog.Logger
	by     string // this replica
	queue  chan happening
	series map[about]*series
}

// happening is the content of an Event.
type happening struct {
	about
	note string
	at   time.Time
}

// about identifies a series: it is the same for all Events of the series. version is that of the
// object as the keeper has it, so a change of the spec begins new series, which show new messages.
type about struct {
	namespace, name, version string
	uid                      types.UID
	kind, reason, action     string
}

// series is an Event that was written, and how often it happened.
type series struct {
	event string // its name
	count int
	last  time.Time
}

const (
	mostEvents = 1000             // that wait
	seriesGap  = 6 * time.Minute  // a later Event begins a new series
	retryEvent = 10 * time.Second // while the API server does not answer
	lastEvents = 3 * time.Second  // for what waits when the program ends
)

var eventResource = schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1",
	Resource: "events"}

func newEvents(api dynamic.Interface, o Options) *events {
	return &events{api: api.Resource(eventResource), log: o.Daemon.Log, by: short(o.Identity, 128),
		queue: make(chan happening, mostEvents), series: map[about]*series{}}
}

// run writes Events until the context ends, and then the ones that wait.
func (e *events) run(ctx context.Context) {
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastEvents, cancel) })()
	for ctx.Err() == nil || len(e.queue) > 0 {
		select {
		case h := <-e.queue:
			e.write(ctx, calls, h)
		case <-ctx.Done():
		}
	}
}

// write writes an Event. It tries again while the API server does not answer, until the context
// ends.
func (e *events) write(ctx, calls context.Context, h happening) {
	for {
		limited, cancel := context.WithTimeout(calls, patience)
		err := e.send(limited, h)
		cancel()
		if err == nil {
			return
		}
		e.log.Debug("an Event is not written", "object", h.namespace+"/"+h.name, "reason", h.reason,
			"error", err.Error())
		if refused(err) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryEvent):
		}
	}
}

// refused reports whether the API server will not take an Event later, either.
func refused(err error) bool {
	code := int32(http.StatusInternalServerError)
	if status := errors.APIStatus(nil); stderrors.As(err, &status) {
		code = status.Status().Code
	}
	return code < http.StatusInternalServerError && code != http.StatusTooManyRequests
}

// send creates an Event, or counts the one of its series.
func (e *events) send(ctx context.Context, h happening) error {
	maps.DeleteFunc(e.series, func(_ about, s *series) bool { return h.at.Sub(s.last) > seriesGap })
	in := e.api.Namespace(h.namespace)
	at := h.at.UTC().Format(metav1.RFC3339Micro)
	if s := e.series[h.about]; s != nil {
		patch, err := json.Marshal(map[string]any{"series": map[string]any{"count": s.count + 1,
			"lastObservedTime": at}})
		if err != nil {
			return err
		}
		_, err = in.Patch(ctx, s.event, types.MergePatchType, patch, metav1.PatchOptions{})
		if err == nil {
			s.count, s.last = s.count+1, h.at
		}
		if !errors.IsNotFound(err) {
			return err
		}
	}
	made, err := in.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": eventResource.GroupVersion().String(), "kind": "Event",
		"metadata":  map[string]any{"namespace": h.namespace, "generateName": h.name + "-"},
		"eventTime": at, "reportingController": leaseName, "reportingInstance": e.by,
		"type": h.kind, "reason": h.reason, "action": h.action, "note": h.note,
		"regarding": map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind,
			"namespace": h.namespace, "name": h.name, "uid": string(h.uid),
			"resourceVersion": h.version},
	}}, metav1.CreateOptions{})
	if err == nil {
		e.series[h.about] = &series{made.GetName(), 1, h.at}
	}
	return err
}

// addEvent adds an Event to an object. Events with the same reason and action become one, with the
// message of the first. So the action names the resource. Action and message contain names from
// Azure, nodes and other objects; programs that list Events write these to terminals unescaped.
func (c *controller) addEvent(o *ClusterRoutes, kind, reason, action, message string) {
	const longestNote, longestAction = 1024, 128 // the API server's limits
	select {
	case c.events.queue <- happening{about{o.Namespace, o.Name, o.ResourceVersion, o.UID, kind,
		reason, short(action, longestAction)}, short(message, longestNote), time.Now()}:
	default:
		c.log.Debug("an Event is dropped, because too many wait", "object", o.key(), "reason",
			reason)
	}
}

// short returns text that can be shown anywhere, with at most so many bytes.
func short(text string, most int) string {
	const more = "…"
	if text = finding.Show(text); len(text) > most {
		text = strings.ToValidUTF8(text[:most-len(more)], "") + more
	}
	return text
}

// addEvents adds Events about changes that a check made, and about findings that are new or gone. A
// silenced finding is new when its silence has ended.
func (c *controller) addEvents(r keeper.Result) {
	news := finding.News(c.known, r.Findings)
	appeared := finding.Loud(slices.Concat(news.Appeared, news.Worse))
	known := c.known
	c.known = finding.ByKey(r.Findings)
	for key, f := range c.known {
		if _, before := known[key]; f.Silenced != nil && !before {
			delete(c.known, key)
		}
	}
	for _, config := range r.Checked() {
		if o := c.object(config.Metadata.Name); o != nil {
			for _, line := range changed(r, config.Metadata.Name) {
				what, _, _ := strings.Cut(line, " (")
				c.addEvent(o, "Normal", "Changed", what, line)
			}
		}
	}
	for _, f := range appeared {
		kind := "Warning"
		if f.Severity == finding.Info {
			kind = "Normal"
		}
		if o := c.object(f.Cluster); o != nil {
			c.addEvent(o, kind, reasonOf(f.Code), "Check "+arm.ID(f.Resource).Short(), f.Message)
		}
	}
	for _, f := range news.Gone {
		if o := c.object(f.Cluster); o != nil {
			c.addEvent(o, "Normal", "Resolved", string(f.Code)+" "+arm.ID(f.Resource).Short(),
				string(f.Code)+": "+f.Message)
		}
	}
}
