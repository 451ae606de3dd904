package finding

// retirement are the codes of the way off kubenet.
var retirement = []Description{}
