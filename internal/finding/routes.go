package finding

// routes are the codes of the routes in tables, and what Kubernetes says of them.
var routes = []Description{}
