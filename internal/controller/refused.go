package controller

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/config"
)

// Specs that are refused. How it works: a mistake in an edit must not end the protection of a
// cluster. So the last accepted spec of an object stays in force while its current one is refused,
// as `run` keeps the previous config. The scopes do not change while the program runs, so an
// accepted spec names nothing outside them. Accepted specs are kept in memory. A replica that saw
// none before the mistake has nothing to put in force, so the object has no effect.

// accepted is a spec that is valid and inside the scopes.
type accepted struct {
	spec       v1alpha1.Spec
	generation int64
}

// refusal says why the spec of a generation is refused.
type refusal struct {
	reason, message string
	generation      int64
	inForce         int64 // the generation whose spec is in force instead; 0: none
	unseen          bool  // this replica has not accepted an earlier spec
}

// String says it in one sentence.
func (r refusal) String() string {
	switch {
	case r.inForce > 0 && r.inForce == r.generation:
		return "the spec can no longer be decoded, and stays in force as it was: " + r.message
	case r.inForce > 0:
		return fmt.Sprintf("the spec of generation %d is refused, and the one of generation %d "+
			"stays in force: %s", r.generation, r.inForce, r.message)
	case r.unseen && r.generation > 1:
		return "the object has no effect, because this replica has seen no spec of it that is " +
			"accepted: " + r.message
	}
	return "the object has no effect: " + r.message
}

// acceptLocked returns the configs of all objects: of the current specs or, if one is refused, of
// the last accepted one.
func (s *set) acceptLocked(objects []ClusterRoutes) []v1alpha1.ClusterRoutes {
	// of two that contradict each other, the oldest wins
	slices.SortFunc(objects, func(a, b ClusterRoutes) int {
		if n := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); n != 0 {
			return n
		}
		return strings.Compare(a.name(), b.name())
	})
	s.refused = map[string]refusal{}
	byName := map[string]*ClusterRoutes{}
	for i := range objects {
		o := &objects[i]
		byName[o.name()] = o
		if reason, why := s.tenancy(o); reason != "" {
			s.refuse(o, reason, why)
		}
	}
	var valid []v1alpha1.ClusterRoutes
	for again := true; again; { // an earlier spec can contradict another object
		var files []config.File
		for i := range objects {
			if in := s.inForce(&objects[i]); in != nil {
				files = append(files, file(in))
			}
		}
		var wrong map[string]*config.Error
		valid, wrong = config.Objects(files)
		for name, mistake := range wrong {
			message := mistake.Problem
			if mistake.Field != "" {
				message = mistake.Field + ": " + message
			}
			s.refuse(byName[name], "Invalid", message)
		}
		again = len(wrong) > 0
	}
	specs := map[types.UID]accepted{}
	for _, o := range objects {
		if _, refused := s.refused[o.name()]; !refused {
			specs[o.UID] = accepted{o.Spec, o.Generation}
		} else if was, has := s.accepted[o.UID]; has {
			specs[o.UID] = was
		}
	}
	s.accepted = specs
	return valid
}

// refuse refuses the current spec of an object or, if it is refused already, the accepted one.
func (s *set) refuse(o *ClusterRoutes, reason, message string) {
	was, again := s.refused[o.name()]
	if again {
		was.inForce = 0
		was.message += "; the last accepted spec contradicts another object now: " + message
		s.refused[o.name()] = was
		return
	}
	last, seen := s.accepted[o.UID]
	// Another object has changed, unless the schema gave this one other types.
	if last.generation == o.Generation && o.undecodable == "" {
		last.generation = 0
	}
	s.refused[o.name()] = refusal{reason, message, o.Generation, last.generation, !seen}
}

// inForce returns an object with the spec that is in force, or nil if none is.
func (s *set) inForce(o *ClusterRoutes) *ClusterRoutes {
	why, refused := s.refused[o.name()]
	if !refused {
		return o
	}
	if why.inForce == 0 {
		return nil
	}
	in := *o
	in.Spec, in.Generation = s.accepted[o.UID].spec, why.inForce
	return &in
}

// tenancy says why an object's namespace may not use what the object names.
func (s *set) tenancy(o *ClusterRoutes) (reason, why string) {
	if len(s.scopes[o.Namespace]) == 0 {
		return "NamespaceNotAllowed", "namespace " + o.Namespace +
			" is not in the controller's allow-list (--scopes)"
	}
	if o.undecodable != "" {
		return "Invalid", o.undecodable
	}
	if why := s.scopes.check(o.Namespace, &o.Spec); why != "" {
		return "OutOfScope", why
	}
	return "", ""
}

// file returns an object as a document.
func file(o *ClusterRoutes) config.File {
	text, _ := json.Marshal(v1alpha1.ClusterRoutes{APIVersion: v1alpha1.APIVersion, // plain structs
		Kind: v1alpha1.Kind, Metadata: v1alpha1.Metadata{Name: o.Name}, Spec: o.Spec})
	return config.File{Name: o.name(), Data: text}
}

// observe notes which specs are accepted, and nothing else.
func (s *set) observe(objects []ClusterRoutes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acceptLocked(objects)
}

// refusals returns the current refusals, by config name.
func (s *set) refusals() map[string]refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.refused)
}

// logRefusals logs each refusal once when it begins, and once when it ends.
func logRefusals(log *slog.Logger, before, now map[string]refusal) {
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if r := now[name]; r != before[name] {
			log.Error("the spec of an object is refused", "object", name, "reason", r.reason,
				"error", r.String())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, still := now[name]; !still {
			log.Info("the spec of an object is no longer refused", "object", name)
		}
	}
}

// refusedLines says which objects are refused, and why.
func refusedLines(refused map[string]refusal) []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		lines = append(lines, name+": "+refused[name].String())
	}
	return lines
}

// current returns an object with the spec that is in force: its own if none is.
func (s *set) current(o *ClusterRoutes) *ClusterRoutes {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.inForce(o); in != nil {
		return in
	}
	return o
}
