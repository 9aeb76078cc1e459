"""A lab as it is this second, without Prometheus and Grafana: what `top` and `serve` show."""
