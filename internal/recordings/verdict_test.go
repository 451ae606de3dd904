package recordings

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// momentary are refusals because of the moment, not the request: they are not replayed.
var (
	momentary = []string{
		"AnotherOperationInProgress",
		"ReferencedResourceNotProvisioned",
		"PrincipalNotFound",
		"ServicePrincipalNotFound",
		"PreconditionFailedEtagMismatch",
	}
	inTheWay = regexp.MustCompile(
		`(?i)in progress|another operation|is not in Succeeded|being updated|preempt|concurrent|please wait`,
	)
)

// measure makes one call and compares its answer with the recorded one.
func (r *replay) measure(i int, c *call) *result {
	key := r.key(c)
	reads := c.Method == http.MethodGet || c.Method == http.MethodHead
	out := &result{
		call:   c,
		row:    c.request.row(),
		name:   r.of.name,
		good:   map[string]bool{},
		status: [2]int{c.Status, 0},
	}
	wantCode, wantMessage := "", ""
	if c.Status >= 400 {
		wantCode, wantMessage = errorOf(c.Answer)
		if c.Status == http.StatusTooManyRequests || c.Status >= 500 ||
			slices.Contains(momentary, wantCode) ||
			c.Status == http.StatusConflict && inTheWay.MatchString(wantMessage) {
			out.verdict = "timing"
			return out
		}
	}
	existed := r.made[key]
	now := r.send(c)
	code, message := "", ""
	if now.status >= 400 {
		code, message = errorOf(now.body)
	}
	out.status[1], out.code = now.status, [2]string{wantCode, code}
	var end *ending
	if now.status < 300 && !reads {
		end = r.azure.follow(now)
	}
	theirEnd := r.recordedEnd(i, c)

	out.good["status"] = c.Status == now.status
	// no page of a gateway's
	if page := strings.HasPrefix(c.Answer, "<"); c.Status >= 400 && !page {
		out.good["code"] = c.Status == now.status && strings.EqualFold(wantCode, code)
		if now.status >= 400 {
			out.good["message"] = sentence(
				wantMessage,
				c.request.parts,
			) == sentence(
				message,
				c.request.parts,
			)
		}
	}
	for _, name := range []string{"azure-asyncoperation", "location"} {
		_, want := c.AnswerHeader[name]
		have := now.header.Get(name) != ""
		if want || have {
			before, known := out.good["headers"]
			out.good["headers"] = want == have && (before || !known)
		}
	}
	if theirEnd != nil && end != nil {
		out.good["end"] = strings.EqualFold(theirEnd.word, end.word) &&
			(end.word == "Succeeded" || theirEnd.code == end.code)
	}
	r.compareAnswers(out, c, now, reads)
	r.note(c, key, now, end, theirEnd, reads)
	r.judge(out, c, now, key, existed, reads)
	return out
}

// compareAnswers compares the bodies of two answers without an error.
func (r *replay) compareAnswers(out *result, c *call, now answer, reads bool) {
	want, have := decoded(c.Answer), decoded(now.body)
	if c.Status >= 300 || now.status >= 300 || object(want) == nil {
		return
	}
	if c.request.namespace == "providers" {
		want, have = providers(want), providers(have)
	}
	items, isList := object(want)["value"].([]any)
	own, ownList := object(have)["value"].([]any)
	switch {
	case isList && reads && ownList:
		_, more := object(want)["nextLink"]
		_, moreOwn := object(have)["nextLink"]
		paged := more || moreOwn || strings.Contains(strings.ToLower(c.request.raw), "skiptoken")
		r.compareLists(&out.diff, items, own, "value", true, pairing{list: true, page: paged})
	case object(have) == nil:
		out.diff.missing = append(out.diff.missing, difference{"(whole body)", c.Answer, now.body})
	default:
		r.compare(&out.diff, want, have, "", reads, pairing{})
	}
	out.good["body"] = out.diff.none()
	out.good["core"] = isCore(out)
}

// providers reduces a list of resource providers to what is comparable.
func providers(v any) any {
	o := object(v)
	if list, isList := o["value"].([]any); isList {
		var kept []any
		for _, item := range list {
			if _, known := inScope[strings.ToLower(textOf(object(item)["namespace"]))]; known {
				kept = append(kept, providers(item))
			}
		}
		return map[string]any{"value": kept}
	}
	out := map[string]any{}
	for _, field := range []string{"id", "namespace", "registrationState", "registrationPolicy"} {
		if o[field] != nil {
			out[field] = o[field]
		}
	}
	return out
}

// note updates what exists, and what differed.
func (r *replay) note(c *call, key string, now answer, end, theirEnd *ending, reads bool) {
	theirs := c.Status < 300 && (theirEnd == nil || strings.EqualFold(theirEnd.word, "Succeeded"))
	own := now.status < 300 && (end == nil || end.word == "Succeeded")
	switch {
	case c.Method == http.MethodPut && own,
		c.Method == http.MethodPatch && own,
		c.Method == http.MethodDelete && now.status < 300:
		r.noteMade(c.Method, key)
	}
	if reads {
		return
	}
	if theirs != own {
		if r.tainted[key] == "" {
			r.tainted[key] = c.Method + " of " + c.request.about + " went another way"
		}
	} else if own && (c.Method == http.MethodPut || c.Method == http.MethodDelete) {
		delete(r.tainted, key)
	}
	if c.request.about == "resourcegroups" && c.Status < 300 && len(c.request.parts) == 4 {
		name := strings.ToLower(c.request.parts[3])
		r.deleted[name] = c.Method == http.MethodDelete
	}
}

// judge decides whether a disagreement counts, or only follows from another one.
func (r *replay) judge(out *result, c *call, now answer, key string, existed, reads bool) {
	out.verdict = "ok"
	for _, what := range []string{"status", "code", "headers", "end", "body"} {
		if good, known := out.good[what]; known && !good {
			out.verdict = "mismatch"
		}
	}
	if out.verdict == "ok" {
		return
	}
	if out.why = r.excuse(out, c, now, key, existed, reads); out.why != "" {
		out.verdict = "consequence"
	}
}

func (r *replay) excuse(out *result, c *call, now answer, key string, existed, reads bool) string {
	text := key + " " + strings.ToLower(r.ours(c.Body)) + " " + c.Header["if-match"]
	bodyOnly := out.good["status"] && (c.Status < 400 || out.good["code"]) && out.diff.none() &&
		out.good["end"]
	for at, why := range r.tainted {
		if !bodyOnly &&
			(strings.Contains(text, at) || strings.HasPrefix(key, at+"/") ||
				strings.HasPrefix(at, key+"/") && (c.Method == http.MethodGet ||
					c.Method == http.MethodDelete)) {
			return "after: " + why
		}
	}
	group := ""
	if m := groupInPath.FindStringSubmatch(key); m != nil {
		group = m[1]
	}
	same := out.status[0] == out.status[1]
	switch {
	case now.status >= 400 && c.Status < 400:
		if why := r.unreplayed(c, now, key); why != "" {
			return why
		}
	case c.Status >= 400 && group != "" && r.deleted[group]:
		return "the real group was still being deleted, or was gone already"
	case reads && c.Status == http.StatusNotFound && now.status == http.StatusOK && r.deployed[key]:
		return "a template deployment was still running"
	case (c.Status == http.StatusForbidden || c.Status == http.StatusUnauthorized) &&
		now.status < 300:
		return "rights of the recorded principal"
	case c.Status >= 400 && now.status < 300 && r.namesUnreplayed(c, key):
		return "the refusal names what was not replayed"
	case c.Method == http.MethodDelete && c.Status == http.StatusAccepted &&
		now.status == http.StatusNoContent && !existed:
		return "was not made by a replayed call"
	case c.Method == http.MethodPut && c.Status == http.StatusOK &&
		now.status == http.StatusCreated && !existed && !r.putBefore(c):
		return "was there before the recording"
	}
	doc := object(decoded(c.Answer))
	state := strings.ToLower(textOf(object(doc["properties"])["provisioningState"]))
	switch id, name := textOf(doc["id"]), textOf(doc["name"]); {
	case reads && c.Status == http.StatusOK && now.status == http.StatusNotFound &&
		state == "deleting":
		return "being deleted"
	case same && id != "" && name != "" && !c.request.list &&
		strings.HasPrefix(c.request.about, "microsoft.") &&
		!strings.EqualFold(
			last(r.ours(id)),
			last(key),
		) && strings.Count(id, "/") != strings.Count(key, "/"):
		return "the recording was edited: another resource answers"
	case same && state == "updating" && onlyPower(out):
		return "a gateway is stopped until the operation that made it has ended, which a replay " +
			"does not leave running"
	}
	return ""
}

// onlyPower reports whether two documents differ only in whether a gateway runs yet.
func onlyPower(out *result) bool {
	all := out.diff.all()
	return len(all) > 0 && !slices.ContainsFunc(all, func(d difference) bool {
		return !strings.HasSuffix(d.path, "properties.operationalState") ||
			!strings.EqualFold(d.recorded, "Stopped")
	})
}

func last(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// unreplayed is why the emulator refuses what Azure accepted: it needs a resource that does not
// exist here.
func (r *replay) unreplayed(c *call, now answer, key string) string {
	for _, id := range ids.FindAllString(strings.ToLower(r.ours(c.Body)), -1) {
		if !strings.Contains(id, "/providers/") || strings.Contains(id, "/resourcegroups/mc_") ||
			strings.Contains(id, "/roledefinitions/") ||
			r.there(id) {
			continue
		}
		if r.azure.do(
			http.MethodGet,
			id+"?api-version=2021-04-01",
			"",
			nil,
		).status == http.StatusNotFound {
			return "names what was not replayed"
		}
	}
	switch code, _ := errorOf(now.body); {
	case code == "PrincipalNotFound":
		return "a principal of the directory"
	case now.status != http.StatusNotFound:
	case r.begunUnreplayed(c):
		return "was begun by a call that was not replayed"
	case strings.Contains(key, "/providers/") && !r.there(key):
		return "was not made by a replayed call"
	case !strings.Contains(key, "/providers/") && !r.made[key]:
		return "group was not made by a replayed call"
	}
	return ""
}

// namesUnreplayed reports whether a recorded refusal is about a resource that does not exist here.
func (r *replay) namesUnreplayed(c *call, key string) bool {
	code, message := errorOf(c.Answer)
	if slices.Contains([]string{"NotFound", "InvalidResourceReference", "ResourceNotFound"}, code) {
		return false
	}
	return slices.ContainsFunc(ids.FindAllString(r.ours(message), -1), func(id string) bool {
		id = strings.TrimRight(strings.ToLower(id), ".")
		return strings.Contains(id, "/providers/") && id != key && !r.there(id)
	})
}

// begunUnreplayed reports whether a call polls an operation by Azure's ID, which differs here.
func (r *replay) begunUnreplayed(c *call) bool {
	return c.Method == http.MethodGet && slices.ContainsFunc(r.of.calls, func(other *call) bool {
		u, err := url.Parse(other.AnswerHeader["location"])
		return err == nil && other.Method == http.MethodPost && u.Path != "" &&
			strings.EqualFold(last(u.Path), last(c.request.path))
	})
}

func (r *replay) putBefore(c *call) bool {
	for _, other := range r.of.calls {
		if other == c {
			return false
		}
		if other.Method == http.MethodPut && strings.EqualFold(other.request.path, c.request.path) {
			return true
		}
	}
	return false
}

// recordedEnd is how the recorded operation ended; nil if the recording does not show it.
func (r *replay) recordedEnd(i int, c *call) *ending {
	path := func(header string) string {
		u, err := url.Parse(c.AnswerHeader[header])
		if err != nil {
			return ""
		}
		return strings.ToLower(u.Path)
	}
	operation, location := path("azure-asyncoperation"), path("location")
	if operation == "" && location == "" || c.Method == http.MethodGet {
		return nil
	}
	for _, later := range r.of.calls[i+1:] {
		at := strings.ToLower(later.request.path)
		switch {
		case operation != "" && at == operation:
			doc := object(decoded(later.Answer))
			if word := textOf(doc["status"]); slices.Contains(
				[]string{"succeeded", "failed", "canceled"},
				strings.ToLower(word),
			) {
				return &ending{
					word: strings.ReplaceAll(word, "Canceled", "Failed"),
					code: textOf(object(doc["error"])["code"]),
				}
			}
		case operation == "" && at == location && later.Status != http.StatusAccepted:
			end := &ending{word: "Succeeded"}
			if later.Status >= 400 {
				end.word = "Failed"
				end.code, _ = errorOf(later.Answer)
			}
			return end
		}
	}
	return nil
}
