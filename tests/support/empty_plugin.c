/* A shared library that is no provider plugin. */
int lamina_empty_plugin(void);
int lamina_empty_plugin(void) { return 0; }
