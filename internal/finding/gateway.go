package finding

// gateways are the codes of gateways and the way out.
var gateways = []Description{}
