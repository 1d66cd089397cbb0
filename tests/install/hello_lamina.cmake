# Installs the build in BINARY_DIR to a fresh folder, builds examples/hello_lamina against it, runs both.
#   cmake -D SOURCE_DIR=... -D BINARY_DIR=... -D CXX_COMPILER=... -D VERSION=... -P hello_lamina.cmake
set(work ${BINARY_DIR}/install_test)
file(REMOVE_RECURSE ${work})

function(run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nfailed with ${result}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${BINARY_DIR} --prefix ${work}/prefix)
run(${work}/prefix/bin/lamina --version)
if(NOT output STREQUAL "lamina ${VERSION}\n")
  message(FATAL_ERROR "the installed command says '${output}'")
endif()
run(${CMAKE_COMMAND} -S ${SOURCE_DIR}/examples/hello_lamina -B ${work}/build -G Ninja
    -D CMAKE_PREFIX_PATH=${work}/prefix -D CMAKE_CXX_COMPILER=${CXX_COMPILER})
run(${CMAKE_COMMAND} --build ${work}/build)
run(${work}/build/hello_lamina)
if(NOT output MATCHES "Lamina ${VERSION}")
  message(FATAL_ERROR "hello_lamina says '${output}'")
endif()
