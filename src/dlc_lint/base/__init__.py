"""What every room uses: findings, rules, errors; may import libcst and the standard library."""
